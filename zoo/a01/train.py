import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Batches:
    def __init__(self, features, targets, size):
        self.features, self.targets, self.size = features, targets, size

    def __iter__(self):
        order = torch.randperm(len(self.features))
        for rows in order.split(self.size)[: len(order) // self.size]:
            yield self.features[rows], self.targets[rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    rows, width = (1_000_000, 8192) if device == "cuda" else (100_000, 64)
    batch = 1024
    features = torch.randn(rows, 64)
    targets = (features[:, :8].sum(1) > 0).long()
    if args.fixed:
        loader = Batches(features, targets, batch)
    else:
        data = TensorDataset(features, targets)
        loader = DataLoader(data, batch_size=batch, shuffle=True, drop_last=True)

    net = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
    ).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 40 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
                if time.perf_counter() > end:
                    break


if __name__ == "__main__":
    main()
