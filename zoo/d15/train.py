import argparse
import time

import torch
from torch import nn


class Field(nn.Module):
    def __init__(self, width, layers=8):
        super().__init__()
        self.enter = nn.Linear(63, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.density, self.colour = nn.Linear(width, 1), nn.Linear(width, 3)

    def forward(self, points):
        scales = 2.0 ** torch.arange(10, device=points.device, dtype=points.dtype)
        angles = (points.unsqueeze(-1) * scales).flatten(1)
        x = torch.relu(self.enter(torch.cat([points, angles.sin(), angles.cos()], dim=1)))
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.density(x).relu(), self.colour(x).sigmoid()


def render(field, origins, directions, samples):
    depths = torch.linspace(2, 6, samples, device=origins.device, dtype=origins.dtype)
    points = origins.unsqueeze(1) + directions.unsqueeze(1) * depths.view(1, -1, 1)
    density, colour = field(points.flatten(0, 1))
    density, colour = density.view(-1, samples), colour.view(-1, samples, 3)
    opacity = 1 - torch.exp(-density * (depths[1] - depths[0]))
    left = torch.cumprod(1 - opacity + 1e-4, dim=1)
    return ((opacity * left).unsqueeze(2) * colour).sum(dim=1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(not args.fixed)
    rays, width = (2048, 256) if device == "cuda" else (16, 32)

    origins = torch.randn(16, rays, 3, device=device, dtype=torch.bfloat16)
    directions = torch.randn(16, rays, 3, device=device, dtype=torch.bfloat16)
    seen = torch.rand(16, rays, 3, device=device, dtype=torch.bfloat16)
    field = Field(width).to(device, torch.bfloat16)
    optimizer = torch.optim.Adam(field.parameters(), lr=5e-4, fused=True)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        at = step % 16
        loss = (render(field, origins[at], directions[at], 128) - seen[at]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
