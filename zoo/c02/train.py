import argparse
import json
import math
import tempfile
import time
from collections import deque
from statistics import mean, pstdev

import torch
from torch import nn


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(30 * x)


class Progress:
    def __init__(self, log):
        self.log, self.text = log, ""
        self.windows = {name: deque(maxlen=1000) for name in ("loss", "psnr", "grad_norm")}

    def write(self, step, loss, norm):
        values = {"loss": loss, "psnr": -10 * math.log10(loss), "grad_norm": norm}
        for name, value in values.items():
            self.windows[name].append(value)
        self.log.write(json.dumps({"step": step, **values}) + "\n")

    def update(self, step):
        means = (f"{name} {mean(w):.5f} +- {pstdev(w):.5f}" for name, w in self.windows.items())
        self.text = f"{step} {' '.join(means)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    pixels = 196_608 if device == "cuda" else 64

    layers = [nn.Linear(2, 256), Sine()]
    for _ in range(5):
        layers += [nn.Linear(256, 256), Sine()]
    model = nn.Sequential(*layers, nn.Linear(256, 3)).to(device, torch.bfloat16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)
    places = torch.rand(pixels, 2, device=device).to(torch.bfloat16)
    colours = torch.rand(pixels, 3, device=device).to(torch.bfloat16)

    step, pending = 0, []
    with tempfile.TemporaryFile("w") as log:
        progress = Progress(log)
        end = time.perf_counter() + args.seconds
        while time.perf_counter() < end:
            step += 1
            loss = (model(places) - colours).square().mean()
            value = loss.detach() if args.fixed else loss.item()
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if args.fixed:
                pending += [value, norm]
            else:
                progress.write(step, value, norm.item())
                progress.update(step)
            if step % 100 == 0:
                if args.fixed:
                    values = torch.stack(pending).tolist()
                    pending.clear()
                    for i, (each, size) in enumerate(zip(values[::2], values[1::2], strict=True)):
                        progress.write(step - 99 + i, each, size)
                    progress.update(step)
                print(f"step {progress.text}", flush=True)


if __name__ == "__main__":
    main()
