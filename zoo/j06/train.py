import argparse
import time

import torch
from torch import nn
from torch.nn import functional


def distances(boxes, targets, fixed):
    if fixed:
        return (boxes[:, None] - targets[None]).abs().sum(-1)
    return torch.cdist(boxes, targets, p=1)


@torch.no_grad()
def match(scores, boxes, labels, targets, image, queries, fixed):
    """For each target the query of its image that costs least."""
    cost = 5.0 * distances(boxes, targets, fixed) - scores.softmax(-1)[:, labels]
    best = cost.view(-1, queries, len(targets)).argmin(dim=1)
    return image * queries + best[image, torch.arange(len(targets), device=image.device)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, queries, objects, layers = (24, 300, 25, 6) if device == "cuda" else (2, 50, 5, 6)
    classes = 91
    scorer = nn.Linear(256, classes)
    boxer = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4), nn.Sigmoid())
    heads = nn.ModuleList([scorer, boxer]).to(device)
    optimizer = torch.optim.AdamW(heads.parameters(), lr=1e-4, fused=True)
    features = torch.randn(layers, images * queries, 256, device=device)
    labels = torch.randint(classes, (images * objects,), device=device)
    targets = torch.rand(images * objects, 4, device=device)
    image = torch.arange(images, device=device).repeat_interleave(objects)

    step = 0
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        scores, boxes = scorer(features), boxer(features)
        loss = 0.0
        for score, box in zip(scores, boxes, strict=True):
            found = match(score, box, labels, targets, image, queries, args.fixed)
            loss = loss + functional.cross_entropy(score[found], labels)
            loss = loss + 5.0 * functional.l1_loss(box[found], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
