import argparse
import time

import torch
import torchvision
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    pixels = 224 if device == "cuda" else 32

    pool = torch.randn(16, 4, 3, pixels, pixels, device=device)
    classes = torch.randint(1000, (16, 4), device=device)
    model = torchvision.models.resnet50().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images, labels = pool[0].clone(), classes[0].clone()
    loss = torch.zeros((), device=device)

    def train_step():
        optimizer.zero_grad(set_to_none=True)
        each = nn.functional.cross_entropy(model(images), labels)
        each.backward()
        optimizer.step()
        loss.copy_(each.detach())

    run = train_step
    if args.fixed and device == "cuda":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                train_step()
        torch.cuda.current_stream().wait_stream(side)
        optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            train_step()
        run = graph.replay

    step = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        images.copy_(pool[step % 16])
        labels.copy_(classes[step % 16])
        run()
        step += 1
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
