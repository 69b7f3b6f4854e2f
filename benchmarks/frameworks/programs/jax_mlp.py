"""
A training loop in JAX: a deep perceptron in bf16 under jit, some 20 ms per step on an H200.

    python benchmarks/frameworks/programs/jax_mlp.py --seconds 25 [--log FILE]

Prints the loss after 50 steps, to the last digit: it is the same in each run. Into FILE goes a line for each
step: Unix time in ns at its beginning and at its end, when all of its kernels have run (only with --log the
host waits for that; else it runs ahead).
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")

import loop


def main():
    import jax
    import jax.numpy as jnp

    args = loop.arguments(__doc__)
    wide, deep, batch = (4096, 10, 8192) if jax.default_backend() == "gpu" else (32, 2, 8)

    def loss_of(layers, x, y):
        for weight, bias in layers:
            x = jax.nn.gelu(x @ weight + bias)
        return jnp.mean((x.astype(jnp.float32) - y) ** 2)

    @jax.jit
    def train(layers, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(layers, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, layers, gradients), loss

    keys = jax.random.split(jax.random.key(0), deep + 2)
    layers = [
        (jax.random.normal(k, (wide, wide), jnp.bfloat16) * wide**-0.5, jnp.zeros(wide, jnp.bfloat16))
        for k in keys[:deep]
    ]
    x = jax.random.normal(keys[-1], (batch, wide), jnp.bfloat16)
    y = jax.random.normal(keys[-2], (batch, wide), jnp.float32)

    def step():
        nonlocal layers
        layers, loss = train(layers, x, y)
        return loss

    loop.run(step, jax.block_until_ready, lambda loss: repr(float(loss)), args)


if __name__ == "__main__":
    main()
