"""
The remedies in words of other frameworks, for programs that are seen not to be in PyTorch.

`remedies` speaks of PyTorch, as most programs are written in it and nobody sees from outside in which one
is. Where a look shows another framework (`attribute/framework.py`), each sentence that names something of
PyTorch is replaced by that framework's own, and where none is known, by one that names no framework.

CuPy: CUPY_TF32 in "Environment variables", `cupy.fuse`, `cupyx.empty_pinned` in its reference. JAX:
`jax_default_matmul_precision` in "Configuration options", `jax.jit`, `jax.nn.dot_product_attention`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perfzero.diagnose.verdict import Remedy
from perfzero.words.said import say

ALLOW_TF32 = say("try.tf32")
ALLOW_TF32_IN_CONVOLUTIONS = say("try.tf32_convolutions")
ALLOW_TF32_IN_BOTH = say("try.tf32_both")
"""PyTorch has a switch for products, off by default, and one for convolutions, on by default."""

_TF32 = {
    "cupy": say("try.tf32.cupy"),
    "jax": say("try.tf32.jax"),
    "other": say("try.tf32.other"),
}

IN_OTHER_WORDS: Mapping[str, Mapping[str, str]] = {
    ALLOW_TF32: _TF32,
    ALLOW_TF32_IN_CONVOLUTIONS: _TF32,
    ALLOW_TF32_IN_BOTH: _TF32,
    say("try.bf16"): {
        "cupy": say("try.fp16.cupy"),
        "jax": say("try.bf16.jax"),
        "other": say("try.bf16.other"),
    },
    say("try.fp16"): {
        "cupy": say("try.fp16.cupy"),
        "jax": say("try.fp16.jax"),
        "other": say("try.fp16.other"),
    },
    say("need.mixed_precision"): {
        "jax": say("need.mixed_precision"),
        "other": say("need.mixed_precision.other"),
    },
    say("try.bf16_activations"): {
        "cupy": say("try.bf16_activations.cupy"),
        "other": say("try.bf16_activations.other"),
    },
    say("try.fuse_elementwise"): {
        "cupy": say("try.fuse_elementwise.cupy"),
        "jax": say("try.fuse_elementwise.jax"),
        "other": say("try.fuse_elementwise.other"),
    },
    say("try.fused_attention"): {
        "jax": say("try.fused_attention.jax"),
        "other": say("try.fused_attention.other"),
    },
    say("try.no_fills"): {
        "cupy": say("try.no_fills.cupy"),
        "other": say("try.no_fills.other"),
    },
    say("try.drop_gradients"): {
        "other": say("try.drop_gradients.other"),
    },
    say("try.fused_or_8bit_optimizer"): {
        "other": say("try.fused_or_8bit_optimizer.other"),
    },
    say("try.fuse_through_l2"): {
        "other": say("try.fuse_through_l2.other"),
    },
    say("try.channels_last"): {
        "other": say("try.channels_last.other"),
    },
    say("need.convolutional"): {
        "other": say("need.convolutional.other"),
    },
    say("try.fuse_between_products"): {
        "other": say("try.fuse_between_products.other"),
    },
    say("try.split_kernels"): {
        "other": say("try.split_kernels.other"),
    },
    say("try.compiler"): {
        "other": say("try.compiler.other"),
    },
    say("try.fused_optimizer_step"): {
        "jax": say("try.fused_optimizer_step.jax"),
        "other": say("try.fused_optimizer_step.other"),
    },
    say("try.graph"): {
        "cupy": say("try.graph.cupy"),
        "jax": say("try.graph.jax"),
        "other": say("try.graph.other"),
    },
    say("try.launch_less"): {
        "cupy": say("try.launch_less.cupy"),
        "jax": say("try.launch_less.jax"),
        "other": say("try.launch_less.other"),
    },
    say("try.launch_less_there"): {
        "cupy": say("try.launch_less_there.cupy"),
        "jax": say("try.launch_less_there.jax"),
        "other": say("try.launch_less_there.other"),
    },
    say("try.read_less"): {
        "cupy": say("try.read_less.cupy"),
        "jax": say("try.read_less.jax"),
        "other": say("try.read_less.other"),
    },
    say("worked.sync_debug"): {
        "other": say("worked.active_rises"),
    },
    say("try.see_streams"): {
        "other": say("try.see_streams.other"),
    },
    say("try.checkpoint_thread"): {
        "other": say("try.checkpoint_thread.other"),
    },
    say("try.copy_without_waiting"): {
        "other": say("try.copy_without_waiting.other"),
    },
    say("try.pinned"): {
        "cupy": say("try.pinned.cupy"),
        "other": say("try.pinned.other"),
    },
    say("try.more_workers"): {
        "other": say("try.more_workers.other"),
    },
    say("try.less_in_loader"): {
        "other": say("try.less_in_loader.other"),
    },
    say("try.compute_on_gpu"): {
        "other": say("try.compute_on_gpu.other"),
    },
    say("try.keep_workers"): {
        "other": say("try.keep_workers.other"),
    },
    say("try.index_batch"): {
        "other": say("try.index_batch.other"),
    },
    say("try.fixed_size"): {
        "other": say("try.fixed_size.other"),
    },
    say("try.decide_on_gpu"): {
        "other": say("try.decide_on_gpu.other"),
    },
    say("try.keep_answer"): {
        "other": say("try.keep_answer.other"),
    },
    say("try.unchecked"): {
        "other": say("try.unchecked.other"),
    },
    say("need.has_unchecked"): {
        "other": say("need.has_unchecked.other"),
    },
    say("try.factor_on_gpu"): {
        "other": say("try.factor_on_gpu.other"),
    },
    say("try.hold_memory"): {
        "other": say("try.keep_cache.other"),
    },
    say("try.keep_cache"): {
        "other": say("try.keep_cache.other"),
    },
    say("try.no_timing"): {
        "other": say("try.no_timing.other"),
    },
    say("need.benchmark_on"): {
        "other": say("need.benchmark_on.other"),
    },
    say("try.stop_compiling"): {
        "jax": say("try.stop_compiling.jax"),
        "other": say("try.stop_compiling.other"),
    },
    say("try.overlap_backward"): {
        "other": say("try.overlap_backward.other"),
    },
}
"""What to say by framework for each sentence of `remedies` that names something of PyTorch."""


def in_words_of(framework: str, remedy: Remedy) -> Remedy:
    """*remedy* for a program in *framework*, which is not PyTorch."""

    def said(sentence: str) -> str:
        words = IN_OTHER_WORDS.get(sentence, {})
        return words.get(framework, words.get("other", sentence))

    return replace(
        remedy, text=said(remedy.text), needs=tuple(map(said, remedy.needs)), verify=said(remedy.verify)
    )
