import argparse
import time

import torch
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    cells, width = (512, 256) if device == "cuda" else (8, 16)

    layers = [part for _ in range(6) for part in (nn.Linear(width, width), nn.Tanh())]
    force = nn.Sequential(*layers).to(device)
    state = torch.randn(cells, width, device=device)

    def advance(x):
        return x + 0.01 * (force(x) - 0.1 * x)

    run = lambda: state.copy_(advance(state))  # noqa: E731
    with torch.inference_mode():
        if device == "cuda" and args.fixed:
            compiled = torch.compile(advance)
            for _ in range(3):
                state.copy_(compiled(state))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                state.copy_(compiled(state))
            run = graph.replay
        elif device == "cuda":
            compiled = torch.compile(advance, options={"triton.cudagraphs": True})
            run = lambda: state.copy_(compiled(state))  # noqa: E731
            for _ in range(5):
                run()

        step = 0
        end = time.perf_counter() + args.seconds
        while time.perf_counter() < end:
            run()
            step += 1
            if step % 1000 == 0:
                print(f"step {step} norm {state.norm().item():.6f}", flush=True)


if __name__ == "__main__":
    main()
