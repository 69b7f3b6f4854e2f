"""
A language model that writes one token after the other for one user, with a cache of keys and values.

Limit: device memory. Every token reads all weights once, and nothing is written.
Fix: none needed for one user; more users at a time, or narrower weights.
Limit with --eager and a small model: the host launches too slowly.
"""

from __future__ import annotations

import argparse

import loop


def parser() -> argparse.ArgumentParser:
    p = loop.parser(__doc__)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--width", type=int, default=8192)
    p.add_argument("--context", type=int, default=1024, help="tokens that the cache holds")
    p.add_argument("--eager", action="store_true", help="without a CUDA graph")
    return p


def main() -> None:
    args = parser().parse_args()
    import torch
    from torch.nn import functional

    width, context = args.width, args.context
    vocabulary, heads = 4 * width, width // 128
    torch.manual_seed(args.seed)
    torch.set_default_dtype(torch.bfloat16)
    shapes = {
        "qkv": (3 * width, width),
        "out": (width, width),
        "up": (4 * width, width),
        "down": (width, 4 * width),
    }
    with torch.device(args.device), torch.inference_mode():
        layers = [{k: torch.randn(s) / s[1] ** 0.5 for k, s in shapes.items()} for _ in range(args.layers)]
        embedding = torch.randn(vocabulary, width)
        head = torch.randn(vocabulary, width) / width**0.5
        cache = torch.zeros(args.layers, 2, 1, heads, context, 128)
        token, position = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
        places = torch.arange(context)

        def write_token() -> None:
            x = functional.embedding(token, embedding)
            seen = (places <= position).view(1, 1, 1, context)
            for layer, (keys, values) in zip(layers, cache, strict=True):
                h = functional.linear(functional.rms_norm(x, (width,)), layer["qkv"])
                query, key, value = h.view(3, 1, heads, 1, 128)
                keys.index_copy_(2, position, key)
                values.index_copy_(2, position, value)
                mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
                x = x + functional.linear(mixed.reshape(1, width), layer["out"])
                h = functional.linear(functional.rms_norm(x, (width,)), layer["up"])
                x = x + functional.linear(functional.silu(h), layer["down"])
            logits = functional.linear(functional.rms_norm(x, (width,)), head)
            token.copy_(logits.argmax(-1))
            position.add_(1).remainder_(context)

        write = write_token if args.eager or args.device == "cpu" else loop.captured(write_token)
        weights = args.layers * 12 * width**2 + vocabulary * width
        loop.run(write, args=args, counts={"tokens": 1, "bytes": 2 * weights})


if __name__ == "__main__":
    main()
