import argparse
import time

import torch
from torch import nn

PROMPT, LONGEST = 2500, 6000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    batch, width, depth = (64, 4096, 64) if device == "cuda" else (16, 256, 4)
    wide, layers = 4 * width, []
    with torch.device(device):
        for _ in range(depth):
            layers += [nn.LayerNorm(width), nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width)]
        net = nn.Sequential(nn.Embedding(8192, width), *layers, nn.Linear(width, 8192)).to(torch.bfloat16)
        tokens = torch.randint(8192, (batch, LONGEST))
    words = [f" w{i}" for i in range(8192)]
    first = tokens[:, :PROMPT].tolist()

    count, length = 0, LONGEST
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        if length == LONGEST:
            length = PROMPT
            texts = ["".join([words[t] for t in row]) for row in first]
        with torch.no_grad():
            tokens[:, length] = net(tokens[:, length - 1]).argmax(-1)
        length += 1
        if args.fixed:
            texts = [text + words[t] for text, t in zip(texts, tokens[:, length - 1].tolist(), strict=True)]
        else:
            texts = ["".join([words[t] for t in row]) for row in tokens[:, :length].tolist()]
        count += batch
        if count % (20 * batch) == 0:
            print(f"token {count} characters {sum(map(len, texts))}", flush=True)


if __name__ == "__main__":
    main()
