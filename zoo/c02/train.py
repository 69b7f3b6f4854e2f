import argparse
import json
import statistics
import tempfile
import time
from collections import deque

import torch
from torch import nn


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(30 * x)


class Progress:
    def __init__(self, log):
        self.log = log
        self.window = deque(maxlen=1000)
        self.text = ""

    def update(self, step, loss):
        self.window.append(loss)
        self.text = f"{step} loss {statistics.mean(self.window):.5f}"

    def write(self, step, norm):
        self.log.write(json.dumps({"step": step, "loss": self.window[-1], "grad_norm": norm}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    pixels = 131_072 if device == "cuda" else 1024

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
            if args.fixed:
                pending.append(loss.detach())
            else:
                progress.update(step, loss.item())
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if args.fixed:
                pending.append(norm)
            else:
                progress.write(step, norm.item())
            if step % 100 == 0:
                if args.fixed:
                    values = torch.stack(pending).tolist()
                    pending.clear()
                    for i, (each, size) in enumerate(zip(values[::2], values[1::2], strict=True)):
                        progress.window.append(each)
                        progress.write(step - 99 + i, size)
                    progress.update(step, progress.window.pop())
                print(f"step {progress.text}", flush=True)


if __name__ == "__main__":
    main()
