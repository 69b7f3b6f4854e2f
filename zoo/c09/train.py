import argparse
import time

import torch
from torch import nn
from torch.nn import functional

CLASSES = 100


class Metric:
    def __init__(self, score, fixed):
        self.score, self.fixed, self.total = score, fixed, 0.0

    def divide(self, a, b):
        if self.fixed:
            return torch.where(b == 0, 0.0, a / b)
        if (b == 0).any():
            b = torch.where(b == 0, 1, b)
        return a / b

    @torch.no_grad()
    def update(self, logits, labels):
        predicted = functional.one_hot(logits.argmax(dim=1), CLASSES)
        actual = functional.one_hot(labels, CLASSES)
        hits = (predicted * actual).sum(dim=0)
        misses = (actual.sum(dim=0) - hits).float()
        extra = (predicted.sum(dim=0) - hits).float()
        hits = hits.float()
        rest = len(labels) - hits - misses - extra
        self.total = self.total + self.divide(*self.score(hits, misses, extra, rest)).mean()


SCORES = {
    "recall": lambda hits, misses, _extra, _rest: (hits, hits + misses),
    "precision": lambda hits, _misses, extra, _rest: (hits, hits + extra),
    "f1": lambda hits, misses, extra, _rest: (2 * hits, 2 * hits + misses + extra),
    "specificity": lambda _hits, _misses, extra, rest: (rest, rest + extra),
    "jaccard": lambda hits, misses, extra, _rest: (hits, hits + misses + extra),
    "fallout": lambda _hits, _misses, extra, rest: (extra, rest + extra),
    "omission": lambda _hits, misses, _extra, rest: (misses, rest + misses),
    "missed": lambda hits, misses, _extra, _rest: (misses, hits + misses),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    width, size = (4096, 5120) if device == "cuda" else (16, 32)

    data = torch.randn(16 * size, width, device=device, dtype=torch.bfloat16)
    classes = torch.randint(CLASSES, (16 * size,), device=device)
    layers = [part for _ in range(4) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(width, CLASSES)).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    metrics = {name: Metric(score, args.fixed) for name, score in SCORES.items()}

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        chosen = torch.randint(len(data), (size,), device=device)
        logits = model(data[chosen])
        loss = functional.cross_entropy(logits, classes[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for metric in metrics.values():
            metric.update(logits, classes[chosen])
        step += 1
        if step % 80 == 0:
            means = " ".join(f"{name} {float(m.total) / step:.4f}" for name, m in metrics.items())
            print(f"step {step} {means}", flush=True)


if __name__ == "__main__":
    main()
