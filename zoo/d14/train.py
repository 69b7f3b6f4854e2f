import argparse
import time

import torch
from torch import nn
from torch.nn import functional

GROUPS, CLASSES, CHOSEN = 13, 90, 100


class Selection(nn.Module):
    def __init__(self, width, fixed):
        super().__init__()
        self.width, self.fixed = width, fixed
        self.project = nn.Parameter(torch.randn(GROUPS, width, width) / width**0.5)
        self.gain = nn.Parameter(torch.ones(GROUPS, 1, width))
        self.classes = nn.Parameter(torch.randn(GROUPS, width, CLASSES) / width**0.5)
        self.boxes = nn.Parameter(torch.randn(GROUPS, width, 4) / width**0.5)

    def select(self, memory, project, gain, classes, boxes):
        x = functional.layer_norm(memory @ project, (self.width,)) * gain
        scores = (x @ classes).amax(dim=-1)
        best, index = scores.topk(CHOSEN, dim=-1)
        guesses = (x @ boxes).sigmoid()
        kept = guesses.gather(-2, index.unsqueeze(-1).expand(*index.shape, 4))
        return best.sum() + kept.sum()

    def forward(self, memory):
        weights = self.project, self.gain, self.classes, self.boxes
        if self.fixed:
            return self.select(memory.unsqueeze(1), *weights)
        return sum(self.select(memory, *group) for group in zip(*(w.unbind() for w in weights), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    images, tokens, width = (2, 900, 256) if device == "cuda" else (1, 200, 16)

    features = torch.randn(8, images, tokens, width, device=device, dtype=torch.bfloat16)
    encoder = nn.Sequential(*(nn.Linear(width, width) for _ in range(6)))
    model = nn.Sequential(encoder, Selection(width, args.fixed)).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        loss = model(features[step % 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
