import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, users, width, context):
        super().__init__()
        self.heads, inner = width // 64, 2 * width
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
        self.register_buffer("cache", torch.randn(2, users, self.heads, context, 128))

    def forward(self, x, position):
        query, key, value = self.qkv(self.norm1(x)).view(len(x), 3, self.heads, 1, 128).unbind(1)
        keys, values = self.cache
        keys.index_copy_(2, position, key)
        values.index_copy_(2, position, value)
        mixed = functional.scaled_dot_product_attention(query, keys, values)
        x = x + self.out(mixed.reshape(len(x), -1))
        return x + self.down(functional.silu(self.up(self.norm2(x))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    width, layers, context = (2048, 4, 32_768) if device == "cuda" else (128, 2, 64)
    users = 16 if args.fixed else 8

    with torch.device(device):
        model = nn.ModuleList(Layer(users, width, context).to(torch.bfloat16) for _ in range(layers))
        embedding = nn.Embedding(8000, width, dtype=torch.bfloat16)
        tokens, position = torch.arange(users), torch.zeros(1, dtype=torch.long)

    def next_token():
        x = embedding(tokens)
        for layer in model:
            x = layer(x, position)
        tokens.copy_(functional.linear(x, embedding.weight).argmax(dim=1))
        position.add_(1).remainder_(context)

    count, step = 0, 0
    with torch.inference_mode():
        run = next_token
        if device == "cuda":
            next_token()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                next_token()
            run = graph.replay
        end = time.perf_counter() + args.seconds
        while time.perf_counter() < end:
            run()
            count, step = count + users, step + 1
            if step % 30 == 0:
                print(f"token {count} id {tokens[0].item()}", flush=True)


if __name__ == "__main__":
    main()
