import argparse
import os
import random
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def score(weights, x):
    for up, down in weights:
        x = x + jax.nn.gelu(x @ up) @ down
    return x.astype(jnp.float32).mean(-1)


def padded(length):
    return next(size for size in (1024, 2048, 3072, 4096) if size >= length)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    on_gpu = jax.default_backend() == "gpu"

    width, depth, scale = (4096, 8, 1) if on_gpu else (64, 2, 4)
    keys = jax.random.split(jax.random.key(0), 2 * depth + 1)
    weights = []
    for i in range(depth):
        up = jax.random.normal(keys[2 * i], (width, 4 * width), jnp.bfloat16) / 64
        down = jax.random.normal(keys[2 * i + 1], (4 * width, width), jnp.bfloat16) / 128
        weights.append((up, down))
    documents = jax.random.normal(keys[-1], (8, 4096, width), jnp.bfloat16)
    draw = random.Random(0)
    if args.fixed:
        for size in (1024, 2048, 3072, 4096):
            score(weights, documents[:, : size // scale]).block_until_ready()

    count, total = 0, 0.0
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        length = draw.randint(600, 4000)
        size = padded(length) if args.fixed else length
        for _ in range(4):
            scores = score(weights, documents[:, : size // scale])
            total += float(np.asarray(scores)[:, : length // scale].mean())
            count += 1
            print(f"batch {count} mean {total / count:.6f}", flush=True)


if __name__ == "__main__":
    main()
