import argparse
import time

import torch
from torch.nn import functional

BOOKS, CODES = 8, 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    streams, width, layers, context = (128, 1024, 24, 256) if device == "cuda" else (8, 64, 2, 16)

    heads = width // 64
    with torch.device(device):
        weights = [
            [torch.randn(n, m) / m**0.5 for n, m in ((3 * width, width), (width, width), (4 * width, width))]
            + [torch.randn(width, 4 * width) / (4 * width) ** 0.5]
            for _ in range(layers)
        ]
        cache = torch.randn(layers, 2, streams, heads, context, 64)
        embedding, head = torch.randn(BOOKS * CODES, width), torch.randn(BOOKS * CODES, width) / width**0.5
        codes = torch.zeros(streams, BOOKS, dtype=torch.long)
        offsets, position = CODES * torch.arange(BOOKS), torch.zeros(1, dtype=torch.long)

    def next_frame():
        x = functional.embedding(codes + offsets, embedding).sum(dim=1)
        for (qkv, out, up, down), (keys, values) in zip(weights, cache, strict=True):
            h = functional.linear(functional.rms_norm(x, (width,)), qkv)
            query, key, value = h.view(streams, 3, heads, 1, 64).unbind(1)
            keys.index_copy_(2, position, key)
            values.index_copy_(2, position, value)
            mixed = functional.scaled_dot_product_attention(query, keys, values)
            x = x + functional.linear(mixed.reshape(streams, width), out)
            x = x + functional.linear(functional.silu(functional.linear(x, up)), down)
        codes.copy_(functional.linear(x, head).view(streams, BOOKS, CODES).argmax(dim=2))
        position.add_(1).remainder_(context)

    spoken = [[] for _ in range(streams)]

    def resolve(frame):
        for said, code in zip(spoken, frame, strict=True):
            said.append(tuple(code))
            if len(set(said[-150:])) < 2 and len(said) > 150:
                said.clear()

    frame, end = 0, time.perf_counter() + args.seconds
    with torch.inference_mode():
        step = next_frame
        if device == "cuda":
            next_frame()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                next_frame()
            step = graph.replay
            buffers = [codes.cpu().pin_memory() for _ in range(2)]
            copied = [torch.cuda.Event() for _ in range(2)]
        while time.perf_counter() < end:
            step()
            if args.fixed and device == "cuda":
                buffers[frame % 2].copy_(codes, non_blocking=True)
                copied[frame % 2].record()
                if frame:
                    copied[1 - frame % 2].synchronize()
                    resolve(buffers[1 - frame % 2].tolist())
            else:
                resolve(codes.tolist())
            frame += 1
            if frame % 100 == 0:
                print(f"frame {frame} code {spoken[0][-1:]}", flush=True)


if __name__ == "__main__":
    main()
