import argparse
import random
import time
from itertools import pairwise

import torch
from torch import nn
from torch.utils.data import DataLoader

VOCABULARY, LETTERS = 30_000, "etaoinshrdlucmfwypvbgkqjxz"


def texts(count, words):
    rng = random.Random(0)
    lexicon = ["".join(rng.choices(LETTERS, k=rng.randint(3, 11))) for _ in range(20_000)]
    return [" ".join(rng.choices(lexicon, k=words)) for _ in range(count)]


class Tokenizer:
    def __init__(self, length):
        rng = random.Random(1)
        pairs = [x + y for x in LETTERS for y in LETTERS]
        longer = [
            x + y for x, y in zip(rng.choices(pairs, k=25_000), rng.choices(pairs, k=25_000), strict=True)
        ]
        merges = dict.fromkeys([*pairs, *longer])
        self.ranks = {merge: i for i, merge in enumerate(merges)}
        self.length = length

    def encode(self, text):
        ids = []
        for word in text.split():
            parts = list(word)
            while len(parts) > 1:
                ranks = [self.ranks.get(x + y, VOCABULARY) for x, y in pairwise(parts)]
                at = ranks.index(min(ranks))
                if ranks[at] == VOCABULARY:
                    break
                parts[at : at + 2] = [parts[at] + parts[at + 1]]
            ids += [self.ranks.get(part, ord(part[0])) for part in parts]
        return torch.tensor((ids + [0] * self.length)[: self.length])

    def collate(self, batch):
        return torch.stack([self.encode(text) for text in batch])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    width, depth, length = (512, 6, 512) if device == "cuda" else (64, 2, 128)
    tokenizer = Tokenizer(length)
    data, collate = texts(512, length // 3), tokenizer.collate
    if args.fixed:
        data, collate = [tokenizer.encode(text) for text in data], torch.stack
    loader = DataLoader(data, 64, shuffle=True, num_workers=1, collate_fn=collate, persistent_workers=True)
    block = nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, batch_first=True, norm_first=True)
    net = nn.Sequential(nn.Embedding(VOCABULARY, width), nn.TransformerEncoder(block, depth))
    net.to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        for ids in loader:
            loss = net(ids.to(device)).float().square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 8 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
