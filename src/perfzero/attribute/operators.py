"""
What PyTorch's operators do, as far as it follows from their names.

An operator is known by its name without `aten::` and without the `_` of what works in place. An operator that
is in none of these tables is not known, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

HALF = ("c10::BFloat16", "c10::Half")
"""The 16-bit types that tensor cores multiply, as C++ calls them."""

MATRIX = frozenset({
    "mm", "addmm", "_addmm_activation", "bmm", "baddbmm", "addbmm", "linear", "_scaled_mm",
})  # fmt: skip
"""Products of two matrices, or of two batches of them."""

CONVOLUTION = frozenset({
    "convolution", "_convolution", "cudnn_convolution", "cudnn_convolution_relu",
    "cudnn_convolution_add_relu", "_conv_depthwise2d", "conv_depthwise3d", "slow_conv3d_forward",
    "_slow_conv2d_forward", "slow_conv_dilated2d", "slow_conv_dilated3d",
})  # fmt: skip
"""Forward. The first two inputs are the image and the weights."""

TRANSPOSED_CONVOLUTION = frozenset({
    "cudnn_convolution_transpose", "slow_conv_transpose2d", "slow_conv_transpose3d",
})  # fmt: skip

CONVOLUTION_BACKWARD = "convolution_backward"
BATCH_NORM_BACKWARD = "native_batch_norm_backward"
LAYER_NORM_BACKWARD = "native_layer_norm_backward"

# Of these, dimensions are batch, heads, sequence, width.
_HEADS_FIRST = {
    "_cudnn_attention", "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
}  # fmt: skip
# And of these batch, sequence, heads, width.
_HEADS_SECOND = {"_flash_attention", "_efficient_attention"}

ATTENTION_FORWARD: Mapping[str, int] = MappingProxyType(
    {name + end: 1 for name in _HEADS_FIRST for end in ("", "_forward")}
    | {name + "_forward": 2 for name in _HEADS_SECOND}
)
"""Attention at once, and which dimension of query, key and value counts the heads."""

ATTENTION_BACKWARD: Mapping[str, int] = MappingProxyType(
    {name + "_backward": 1 for name in _HEADS_FIRST} | {name + "_backward": 2 for name in _HEADS_SECOND}
)

UNARY = frozenset({
    "abs", "neg", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos",
    "tan", "tanh", "sigmoid", "relu", "gelu", "silu", "mish", "softplus", "elu", "leaky_relu", "hardswish",
    "hardtanh", "hardsigmoid", "reciprocal", "floor", "ceil", "round", "trunc", "sign", "sgn", "erf",
    "clamp", "clamp_min", "clamp_max",
})  # fmt: skip
BINARY = frozenset({
    "add", "sub", "rsub", "mul", "div", "maximum", "minimum", "pow", "remainder", "fmod", "atan2",
    "threshold_backward", "gelu_backward", "silu_backward", "mish_backward", "tanh_backward",
    "sigmoid_backward", "softplus_backward", "elu_backward", "leaky_relu_backward", "hardswish_backward",
    "hardtanh_backward", "hardsigmoid_backward", "native_dropout_backward", "masked_fill",
    "bitwise_and", "bitwise_or", "bitwise_xor",
})  # fmt: skip
TERNARY = frozenset({"where", "addcmul", "addcdiv", "lerp"})
TO_BOOL = frozenset({
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan",
    "isinf", "isfinite", "bitwise_not",
})  # fmt: skip
"""What makes a truth of each element; `bitwise_not` does of truths."""

ELEMENTWISE = UNARY | BINARY | TERNARY | TO_BOOL | {"native_dropout"}
"""What computes each element of its result from the same one of its inputs, and nothing else."""

NORMS = frozenset({
    BATCH_NORM_BACKWARD, "native_batch_norm", "cudnn_batch_norm", "cudnn_batch_norm_backward",
    LAYER_NORM_BACKWARD, "native_layer_norm", "native_group_norm", "native_group_norm_backward",
    "_fused_rms_norm", "_fused_rms_norm_backward",
    "_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "_safe_softmax",
})  # fmt: skip
"""Norms and softmax: sums over a part of what goes in, and then a result of its shape, element by element."""

ROW_SUMS = frozenset({"mean", "var", "var_mean", "std", "amax", "amin"})
"""
Sums and extremes over a part of what goes in, as norms that are written out have them: over rows mostly,
which a kernel has whole. `sum` is none, for gradients of weights are sums over columns.
"""

COPY = frozenset({"copy", "fill", "zero"})

_WITHOUT_PRODUCTS = frozenset({
    LAYER_NORM_BACKWARD, BATCH_NORM_BACKWARD, "cudnn_batch_norm", "cudnn_batch_norm_backward",
    "native_batch_norm",
    "_batch_norm_with_update", "batch_norm_backward", "batch_norm_stats", "batch_norm_elemt",
    "native_layer_norm", "native_group_norm", "native_group_norm_backward",
    "_fused_rms_norm", "_fused_rms_norm_backward",
    "_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "_safe_softmax",
    "nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward", "mse_loss",
    "mse_loss_backward", "binary_cross_entropy", "binary_cross_entropy_backward",
    "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward",
    "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "adaptive_max_pool2d",
    "upsample_nearest2d", "upsample_nearest2d_backward", "upsample_bilinear2d",
    "upsample_bilinear2d_backward", "constant_pad_nd",
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "prod", "std", "var",
    "var_mean", "logsumexp", "linalg_vector_norm", "norm", "cumsum", "cumprod", "sort", "topk",
    "embedding", "embedding_dense_backward", "gather", "scatter", "scatter_add", "index", "index_select",
    "index_add", "index_put", "_index_put_impl", "index_copy", "nonzero", "masked_select", "roll", "flip",
    "cat", "stack", "split_with_sizes_copy", "repeat_interleave", "tril", "triu", "arange", "linspace",
    "full", "eye", "bernoulli", "uniform", "normal", "random", "exponential", "multinomial",
    "_local_scalar_dense", "_amp_update_scale", "_amp_foreach_non_finite_check_and_unscale", "glu",
    "glu_backward", "_fused_dropout", "_masked_scale",
})  # fmt: skip
_LISTS = ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad", "_chunk_cat")


def plain(operator: str) -> str:
    """The name that the tables have it by."""
    name = operator.removeprefix("aten::")
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def works_in_place(operator: str) -> bool:
    """Whether the first input of *operator* is also its result."""
    return operator.endswith("_") and not operator.endswith("__")


def multiplies_nothing(operator: str) -> bool:
    """Whether *operator* is known to be no product, convolution or attention, nor to contain one."""
    if not operator.startswith("aten::"):
        return False
    name = plain(operator)
    return name in ELEMENTWISE or name in COPY or name in _WITHOUT_PRODUCTS or name.startswith(_LISTS)
