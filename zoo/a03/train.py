import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 8192


class Corpus(Dataset):
    def __init__(self, rows, length):
        self.tokens = torch.randint(VOCABULARY, (rows, length + 1), dtype=torch.int32)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        row = self.tokens[i].long()
        return row[:-1], row[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    width, depth, length, rows = (4096, 4, 1024, 2560) if device == "cuda" else (64, 2, 64, 512)
    loader = DataLoader(
        Corpus(rows, length),
        batch_size=16,
        shuffle=True,
        num_workers=4,
        multiprocessing_context="fork",
        persistent_workers=args.fixed,
    )
    wide, layers = 4 * width, []
    with torch.device(device):
        for _ in range(depth):
            layers += [nn.Linear(width, wide), nn.ReLU(), nn.Linear(wide, width)]
        net = nn.Sequential(nn.Embedding(VOCABULARY, width), *layers, nn.Linear(width, VOCABULARY))
    net.to(torch.bfloat16)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        for x, y in loader:
            logits = net(x.to(device))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.to(device).flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 4 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
                if time.perf_counter() > end:
                    break


if __name__ == "__main__":
    main()
