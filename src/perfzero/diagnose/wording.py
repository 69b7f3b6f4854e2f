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

ALLOW_TF32 = 'Allow TF32: torch.set_float32_matmul_precision("high").'
ALLOW_TF32_IN_CONVOLUTIONS = "Allow TF32 in convolutions: torch.backends.cudnn.allow_tf32 = True."
ALLOW_TF32_IN_BOTH = (
    'Allow TF32: torch.set_float32_matmul_precision("high"), and for convolutions '
    "torch.backends.cudnn.allow_tf32 = True."
)
"""PyTorch has a switch for products, off by default, and one for convolutions, on by default."""

_TF32 = {
    "cupy": "Allow TF32: start the program with CUPY_TF32=1.",
    "jax": 'Allow TF32: jax.config.update("jax_default_matmul_precision", "tensorfloat32").',
    "other": "Allow TF32 where matrices are multiplied (cuBLAS: CUBLAS_TF32_TENSOR_OP_MATH).",
}

IN_OTHER_WORDS: Mapping[str, Mapping[str, str]] = {
    ALLOW_TF32: _TF32,
    ALLOW_TF32_IN_CONVOLUTIONS: _TF32,
    ALLOW_TF32_IN_BOTH: _TF32,
    "Run it in bfloat16: torch.autocast('cuda', torch.bfloat16) around forward and loss.": {
        "cupy": "Run it in float16: arrays of cupy.float16 are multiplied on the tensor cores.",
        "jax": "Run it in bfloat16: cast parameters and inputs with .astype(jax.numpy.bfloat16).",
        "other": "Run it in a 16-bit type.",
    },
    "Run it in float16: torch.autocast('cuda', torch.float16) with a GradScaler.": {
        "cupy": "Run it in float16: arrays of cupy.float16 are multiplied on the tensor cores.",
        "jax": "Run it in float16: cast parameters and inputs with .astype(jax.numpy.float16), and "
        "scale the loss.",
        "other": "Run it in float16.",
    },
    "the model trains in mixed precision": {
        "jax": "the model trains in mixed precision",
        "other": "16 bits are precise enough",
    },
    "Keep activations in bfloat16: torch.autocast.": {
        "cupy": "Keep arrays between kernels in cupy.float16.",
        "other": "Keep activations in bfloat16.",
    },
    "Fuse elementwise operations so that intermediate results never reach memory: torch.compile.": {
        "cupy": "Fuse elementwise operations so that intermediate results never reach memory: cupy.fuse.",
        "jax": "Fuse elementwise operations so that intermediate results never reach memory: one jax.jit.",
        "other": "Fuse elementwise operations so that intermediate results never reach memory.",
    },
    "Use a fused attention kernel: torch.nn.functional.scaled_dot_product_attention.": {
        "jax": 'Use a fused attention kernel: jax.nn.dot_product_attention(implementation="cudnn").',
        "other": "Use a fused attention kernel.",
    },
    "Avoid fills: torch.empty instead of torch.zeros where all of it is overwritten.": {
        "cupy": "Avoid fills: cupy.empty instead of cupy.zeros where all of it is overwritten.",
        "other": "Avoid fills where all of it is overwritten.",
    },
    "Let gradients go instead of filling them with zeros: zero_grad(set_to_none=True).": {
        "other": "Let gradients go instead of filling them with zeros.",
    },
    "Use a fused optimizer (fused=True), or one that keeps its state in 8 bits.": {
        "other": "Use a fused optimizer, or one that keeps its state in 8 bits.",
    },
    "Fuse kernels that hand each other their results through the L2: torch.compile.": {
        "other": "Fuse kernels that hand each other their results through the L2.",
    },
    "Use channels-last for model and input: .to(memory_format=torch.channels_last).": {
        "other": "Use channels-last for model and input.",
    },
    "it is a convolutional network under autocast": {
        "other": "it is a convolutional network in a 16-bit type",
    },
    "Fuse what runs between the products: torch.compile, scaled_dot_product_attention.": {
        "other": "Fuse what runs between the products.",
    },
    "Use kernels that split the long dimension (split-K, split-KV), or fuse the small ones: torch.compile.": {
        "other": "Use kernels that split the long dimension (split-K, split-KV), or fuse the small ones.",
    },
    "Let a compiler fuse and re-tile it: torch.compile.": {
        "other": "Let a compiler fuse and re-tile it.",
    },
    "Update all parameters in few kernels: a fused optimizer (torch.optim.Adam(..., fused=True)).": {
        "jax": "Update all parameters in few kernels: the optimizer's step within jax.jit.",
        "other": "Update all parameters in few kernels: a fused optimizer.",
    },
    'Record the step into a CUDA graph: torch.compile(mode="reduce-overhead") or torch.cuda.graph.': {
        "cupy": "Record the step into a CUDA graph: begin_capture and end_capture of a cupy.cuda.Stream.",
        "jax": "Record the step into a CUDA graph: XLA does so within one jax.jit.",
        "other": "Record the step into a CUDA graph.",
    },
    "Launch less: torch.compile, and a fused optimizer (fused=True).": {
        "cupy": "Launch less: cupy.fuse, or a cupy.ElementwiseKernel that does all at once.",
        "jax": "Launch less: the whole step in one jax.jit.",
        "other": "Launch less: fuse small kernels into larger ones.",
    },
    'Launch less: a CUDA graph (torch.compile(mode="reduce-overhead")), a fused optimizer, or a larger '
    "batch.": {
        "cupy": "Launch less: cupy.fuse, a CUDA graph, or larger arrays.",
        "jax": "Launch less: the whole step in one jax.jit, or a larger batch.",
        "other": "Launch less: a CUDA graph, fused kernels, or a larger batch.",
    },
    "Do not read results back in every step: .item(), .cpu(), print(loss), bool(tensor) wait for the GPU.": {
        "cupy": "Do not read results back in every step: .item(), .get(), print(x), bool(x) wait for "
        "the GPU.",
        "jax": "Do not read results back in every step: float(x), numpy.asarray(x), print(x), bool(x), "
        "block_until_ready wait for the GPU.",
        "other": "Do not read results back in every step: the host waits for the GPU then.",
    },
    'gr_active rises; torch.cuda.set_sync_debug_mode("warn") names the lines.': {
        "other": "gr_active rises.",
    },
    "See which stream waits for which: nsys profile --trace=cuda,osrt for a few steps; then wait for "
    "less (wait_event instead of wait_stream), or start the awaited work earlier.": {
        "other": "See which stream waits for which: nsys profile --trace=cuda,osrt for a few steps; then "
        "wait for less (for an event instead of a stream), or start the awaited work earlier.",
    },
    "Save checkpoints from a thread: copy the state to pinned memory, and write that "
    "(torch.distributed.checkpoint.async_save does both).": {
        "other": "Save checkpoints from a thread: copy the state to pinned memory, and write that.",
    },
    "Copy from pinned memory: DataLoader(pin_memory=True) and .to(device, non_blocking=True).": {
        "cupy": "Copy from pinned memory (cupyx.empty_pinned), in a stream of its own.",
        "other": "Copy from pinned memory, asynchronously.",
    },
    "Raise num_workers, set persistent_workers=True and prefetch_factor.": {
        "other": "Give the loader more workers that stay, and let it read ahead.",
    },
    "Do less per sample in the DataLoader, or give it more workers.": {
        "other": "Do less per sample in the loader, or give it more workers.",
    },
    "Overlap communication with the backward pass: larger DDP buckets, or prefetch in FSDP.": {
        "other": "Overlap communication with computation.",
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
