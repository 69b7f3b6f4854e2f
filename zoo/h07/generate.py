import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.state, self.mix = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.mix(torch.sigmoid(self.state(h)) * h)
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    users = 8 if args.fixed else 1
    width, hidden, layers = (1536, 8960, 28) if device == "cuda" else (64, 256, 2)

    embedding = nn.Embedding(32_000, width).to(device, torch.bfloat16)
    model = nn.Sequential(*(Layer(width, hidden) for _ in range(layers))).to(device, torch.bfloat16)
    tokens = torch.arange(users, device=device)

    def next_token():
        logits = functional.linear(model(embedding(tokens)), embedding.weight)
        tokens.copy_(logits.argmax(dim=1))

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
            if step % 150 == 0:
                print(f"token {count} id {tokens[0].item()}", flush=True)


if __name__ == "__main__":
    main()
