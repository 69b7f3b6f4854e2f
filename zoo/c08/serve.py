import argparse
import random
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*qkv, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def to_device(rows, device):
    made = torch.tensor(rows)
    return (made.pin_memory() if device == "cuda" else made).to(device, non_blocking=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    random.seed(0)
    size, width = (64, 768) if device == "cuda" else (4, 64)

    prompts = [random.choices(range(32_000), k=random.randint(128, 512)) for _ in range(2000)]
    embedding = nn.Embedding(32_000, width).to(device, torch.bfloat16)
    blocks = nn.Sequential(*(Block(width, width // 64) for _ in range(6))).to(device, torch.bfloat16)

    served, answers = 0, []
    end = time.perf_counter() + args.seconds
    with torch.inference_mode():
        while time.perf_counter() < end:
            requests = random.sample(prompts, size)
            lengths = to_device([len(p) for p in requests], device)
            longest = max(map(len, requests)) if args.fixed else int(lengths.max().item())
            tokens = to_device([p + [0] * (longest - len(p)) for p in requests], device)
            hidden = blocks(embedding(tokens))
            last = hidden[torch.arange(size, device=device), lengths - 1]
            answers.append((last @ embedding.weight.T).argmax(dim=1))
            served += size
            if len(answers) == 25:
                print(f"request {served} distinct {len(set(torch.cat(answers).tolist()))}", flush=True)
                answers.clear()


if __name__ == "__main__":
    main()
