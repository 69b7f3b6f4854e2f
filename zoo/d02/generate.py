import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.heads = width // 64
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.register_buffer("keys", torch.zeros(1, self.heads, context, 64))
        self.register_buffer("values", torch.zeros(1, self.heads, context, 64))

    def forward(self, x, position, seen):
        query, key, value = self.qkv(self.norm1(x)).view(3, 1, self.heads, 1, 64)
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        mixed = functional.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=seen)
        x = x + self.out(mixed.reshape(1, -1))
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, width, layers, context, words=32_000):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, context) for _ in range(layers))
        self.register_buffer("token", torch.zeros(1, dtype=torch.long))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("places", torch.arange(context))

    def forward(self):
        x = self.embedding(self.token)
        seen = (self.places <= self.position).view(1, 1, 1, -1)
        for layer in self.layers:
            x = layer(x, self.position, seen)
        self.token.copy_(functional.linear(x, self.embedding.weight).argmax(-1))
        self.position.add_(1).remainder_(len(self.places))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    width, layers = (1024, 24) if device == "cuda" else (64, 2)

    count = 0
    with torch.inference_mode():
        model = Decoder(width, layers, 1024).to(device, torch.bfloat16)
        run = model
        if args.fixed and device == "cuda":
            model()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                model()
            run = graph.replay
        end = time.perf_counter() + args.seconds
        while time.perf_counter() < end:
            run()
            count += 1
            if count % 50 == 0:
                print(f"token {count} id {model.token.item()}", flush=True)


if __name__ == "__main__":
    main()
