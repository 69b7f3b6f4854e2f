import argparse
import random
import time

import torch
from torch import nn

QUERIES = 300


class Decoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, QUERIES, width))
        layer = nn.TransformerDecoderLayer(width, 8, 4 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerDecoder(layer, 2).layers
        self.classes, self.boxes = nn.Linear(width, 91), nn.Linear(width, 4)

    def forward(self, memory):
        x, levels = self.queries.expand(len(memory), -1, -1), []
        for layer in self.layers:
            x = layer(x, memory)
            levels.append((self.classes(x), self.boxes(x).sigmoid()))
        return levels


def criterion(level, boxes, labels, valid, count, fixed):
    logits, guesses = level
    if not fixed:
        assert int(valid.sum()) == count
    apart = (boxes.float().unsqueeze(2) - guesses.float().unsqueeze(1)).abs().sum(dim=3)
    matched = apart.argmin(dim=2, keepdim=True)
    nearest = guesses.gather(1, matched.expand(-1, -1, 4))
    near = logits.gather(1, matched.expand(-1, -1, logits.shape[2]))
    per_label = nn.functional.cross_entropy(near.flatten(0, 1), labels.flatten(), reduction="none")
    box_loss = ((nearest - boxes).abs().sum(dim=2) * valid).sum() / count
    return (per_label * valid.flatten()).sum() / count, box_loss


def collate(images, device):
    rows = max(len(boxes) for boxes, _ in images)
    boxes, labels = torch.zeros(len(images), rows, 4), torch.zeros(len(images), rows, dtype=torch.long)
    for i, (each, names) in enumerate(images):
        boxes[i, : len(each)] = torch.tensor(each)
        labels[i, : len(names)] = torch.tensor(names)
    targets = boxes.to(torch.bfloat16), labels, (boxes > 0).any(dim=2)
    if device == "cuda":
        targets = tuple(t.pin_memory().to(device, non_blocking=True) for t in targets)
    return (*targets, sum(len(each) for each, _ in images))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    random.seed(0)
    size, width, tokens = (96, 1024, 640) if device == "cuda" else (2, 32, 16)
    counts = [random.randint(20, 80) for _ in range(2000)]
    images = [([[random.random() + 0.01 for _ in range(4)] for _ in range(n)], [n] * n) for n in counts]
    memory = torch.randn(size, tokens, width, device=device, dtype=torch.bfloat16)
    model = Decoder(width).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    step, end = 0, time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        targets = collate(random.sample(images, size), device)
        losses = [part for level in model(memory) for part in criterion(level, *targets, args.fixed)]
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()
        logged = torch.stack(losses).detach() if args.fixed else [part.item() for part in losses]
        step += 1
        if step % 20 == 0:
            print(f"step {step} loss {float(sum(logged)):.4f}", flush=True)


if __name__ == "__main__":
    main()
