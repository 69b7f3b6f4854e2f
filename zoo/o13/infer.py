import argparse
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
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=False)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, length, width, layers = (32, 512, 2048, 6) if device == "cuda" else (2, 16, 64, 2)
    with torch.device(device):
        model = nn.Sequential(*[Block(width, 16) for _ in range(layers)]).to(torch.bfloat16).eval()
        requests = torch.randn(8, batch, length, width).to(torch.bfloat16)

    request = 0
    with torch.inference_mode():
        for _ in range(3):
            result = model(requests[0])
        if args.fixed and device == "cuda":
            static, graph = requests[0].clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = model(static)
        end = time.monotonic() + args.seconds
        while time.monotonic() < end:
            x = requests[request // batch % len(requests)]
            if args.fixed and device == "cuda":
                static.copy_(x)
                graph.replay()
            else:
                result = model(x)
            request += batch
            if request % (20 * batch) == 0:
                print(f"request {request} mean {result.float().mean().item():.4f}", flush=True)


if __name__ == "__main__":
    main()
