import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Traces(Dataset):
    def __init__(self, count, length, single):
        rng = np.random.default_rng(0)
        self.traces = rng.standard_normal((count, length), dtype=np.float32)
        self.dtype = np.float32 if single else np.float64
        self.gain = np.linspace(0.5, 2.0, length).astype(self.dtype)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        x = self.traces[i % len(self.traces)].astype(self.dtype) * self.gain
        x += self.dtype(0.05) * rng.standard_normal(x.shape, dtype=self.dtype)
        spectrum = np.fft.rfft(x)
        spectrum[len(spectrum) // 4 :] = 0
        x = np.fft.irfft(spectrum, len(x))
        x = (x - x.mean()) / x.std()
        return torch.from_numpy(x.astype(np.float32))[None]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")

    length, channels = (1 << 17, 64) if device == "cuda" else (1 << 15, 8)
    loader = DataLoader(Traces(32, length, single=args.fixed), 16, num_workers=4, pin_memory=device == "cuda")
    net = nn.Sequential(
        nn.Conv1d(1, channels, 16, 4), nn.GELU(),
        nn.Conv1d(channels, channels, 16, 4), nn.GELU(),
        nn.Conv1d(channels, channels, 16, 4), nn.GELU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, 1),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    end = time.perf_counter() + args.seconds
    for step, x in enumerate(loader, 1):
        loss = net(x.to(device, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            if time.perf_counter() > end:
                break


if __name__ == "__main__":
    main()
