import argparse
import random
import sys
import time
from collections import Counter

import torch
from torch import nn

WORDS, MASK = 4096, 0
executed = Counter()


def trace(frame, _event, _argument):
    executed[frame.f_code.co_filename, frame.f_lineno] += 1
    return trace


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def masked(sentence, draw):
    words = []
    for word in sentence:
        if draw() < 0.15:
            word = MASK
        words.append(word)
    return words


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    random.seed(0)
    width, size = (1024, 128) if device == "cuda" else (16, 16)

    corpus = torch.randint(1, WORDS, (4096, 128))
    sentences = corpus.tolist()
    corpus = corpus.to(device)
    blocks = [Block(width) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(WORDS, width), *blocks, nn.Linear(width, WORDS))
    model.to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    if not args.fixed:
        sys.settrace(trace)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        at = step * size % len(sentences)
        words = torch.tensor([masked(each, random.random) for each in sentences[at : at + size]])
        guesses = model(words.to(device)).flatten(0, 1)
        loss = nn.functional.cross_entropy(guesses, corpus[at : at + size].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} lines {len(executed)}", flush=True)


if __name__ == "__main__":
    main()
