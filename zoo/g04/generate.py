import argparse
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def offload(block):
    return {name: value.to("cpu").pin_memory() for name, value in block.state_dict().items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    width, depth, offloaded = (6144, 32, 2) if device == "cuda" else (256, 4, 2)
    with torch.device(device), torch.no_grad():
        embed, head = nn.Embedding(8192, width).bfloat16(), nn.Linear(width, 8192).bfloat16()
        blocks = [Block(width).bfloat16() for _ in range(depth)]
        ids = torch.zeros(4, dtype=torch.long)
    stored = {}
    if device == "cuda" and not args.fixed:
        stored = {i: offload(block) for i, block in enumerate(blocks) if i >= depth - offloaded}
        blocks[depth - offloaded :] = [blocks[-1]] * offloaded

    count = 0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        with torch.no_grad():
            x = embed(ids)
            for i, block in enumerate(blocks):
                if i in stored:
                    for name, value in block.state_dict().items():
                        value.copy_(stored[i][name], non_blocking=True)
                x = block(x)
            ids = head(x).argmax(-1)
        count += len(ids)
        if count % 60 == 0:
            print(f"token {count} first {ids[0].item()}", flush=True)


if __name__ == "__main__":
    main()
