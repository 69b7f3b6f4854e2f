import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class PointNet(nn.Module):
    def __init__(self, classes=40):
        super().__init__()
        layers = []
        for before, after in ((3, 64), (64, 256), (256, 1024), (1024, 1024)):
            layers += [nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(1024, classes)

    def forward(self, points):
        per_point = self.features(points.flatten(0, 1)).view(*points.shape[:2], -1)
        return self.head(per_point.amax(dim=1))


def crop(cloud, kept, rng):
    offset = cloud - cloud[rng.integers(len(cloud))]
    nearest = np.argpartition((offset * offset).sum(axis=1), kept)[:kept]
    angle = rng.uniform(0, 2 * np.pi)
    c, s = np.cos(angle), np.sin(angle)
    return offset[nearest] @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=np.float32)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    rng = np.random.default_rng(0)
    size, kept = (10, 16_384) if device == "cuda" else (1, 256)

    def now():
        if device == "cuda" and not args.fixed:
            torch.cuda.synchronize()
        return time.perf_counter()

    clouds = rng.standard_normal((64, 30_000, 3), dtype=np.float32)
    names = rng.integers(40, size=len(clouds))
    model = PointNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    step, spent = 0, np.zeros(3)
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        began = now()
        chosen = rng.integers(len(clouds), size=size)
        points = torch.from_numpy(np.stack([crop(clouds[i], kept, rng) for i in chosen]))
        labels = torch.from_numpy(names[chosen])
        if device == "cuda":
            points, labels = points.pin_memory(), labels.pin_memory()
        points, labels = points.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        prepared = now()
        loss = functional.cross_entropy(model(points), labels)
        forward = now()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        spent += np.diff([began, prepared, forward, now()])
        step += 1
        if step % 20 == 0:
            times = " ".join(f"{1000 * s / step:.1f}" for s in spent)
            print(f"step {step} loss {loss.item():.4f} ms {times}", flush=True)


if __name__ == "__main__":
    main()
