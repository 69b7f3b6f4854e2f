"""
What a stack of Python means: the table from functions and lines to what the host does there.

Two things tell. Functions of libraries, from the innermost frame out to the first that is the program's own:
`torch/serialization.py` writes a checkpoint, whatever called it. And the text of the line, for functions in C
have no frame: `loss.item()` shows only as the line on which it stands. The table names what is common; a line
that it does not know, or that may mean several things, is the program's own Python, or where torch is below
it, launching.

Three kinds are told apart by what they do to the GPU's idle time:

    waits for the GPU   a call that lasts until the GPU has done what it was given (`WAITS_FOR_GPU`). While it
                        lasts the GPU is busy, and what comes after it is late
    waits for others    what is waited for goes on in parallel (`WAITS_FOR_OTHERS`): without other waits this
                        one is longer
    launching           the program gives the GPU work, which it has to (`LAUNCHING`)
    everything else     host time that the GPU waits for if it has nothing left to do

No stack means that the main thread waits for the GIL ("gil"): that is seen otherwise (`attribute.gil`), and
told of the line of the thread that holds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from perfzero.attribute.source_lines import is_users
from perfzero.attribute.waits import NO_ARRAY, SURE_TEXT, WAITING_FRAME
from perfzero.stacks import Frame
from perfzero.traces import Function

Activity = Literal[
    "loader", "synchronising", "copying", "garbage collection", "checkpoint", "logging", "tokenising",
    "compiling", "allocator", "allocating", "lock", "network", "disk", "sleeping", "launching", "python",
    "gil", "starting workers",
]  # fmt: skip

WAITS_FOR_GPU: frozenset[Activity] = frozenset({"synchronising", "copying"})
WAITS_FOR_OTHERS = frozenset({"loader", "starting workers", "lock", "network"})
LAUNCHING: frozenset[Activity] = frozenset({"launching"})

Stage = Literal[
    "reading", "decoding", "augmenting", "tokenising", "picking", "collating", "pinning", "sending", "other"
]
"""
What a worker of a DataLoader does for a batch, or the main process where it makes its batches itself.

"picking" is to take single samples out of what lies in memory.
"""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a stack means, and the frames of the program that lead there, the outermost first."""

    activity: Activity
    path: tuple[Frame, ...]


_LIBRARY: tuple[tuple[re.Pattern[str], Activity], ...] = tuple(
    (re.compile(pattern), cast(Activity, activity))
    for pattern, activity in (
        (r"torch/(_tensor_str\.py|_tensor\.py:(__format__|__repr__|__str__|__array__|tolist))",
         "synchronising"),
        (r"torch/(cuda|xpu|mps)/(__init__|streams)\.py:(synchronize|wait)$", "synchronising"),
        (r"torch/_dynamo/(convert_frame|symbolic_convert|output_graph|guards|variables|bytecode)",
         "compiling"),
        (r"torch/_inductor/(compile_fx|graph|scheduler|lowering|async_compile|select_algorithm)\.py:"
         r"(?!run\b|wrapper\b|_run)", "compiling"),
        (r"triton/(compiler|runtime/(build|autotuner))", "compiling"),
        (r"/jax/_src/(compiler|compilation_cache|cache_key|interpreters/(mlir|partial_eval))\.py|"
         r"/jax/_src/(pjit|stages|interpreters/pxla)\.py:(_trace_for_jit|trace|_pjit_lower|_resolve_and_lower|"
         r"lower\w*|_cached_\w+|compile|from_hlo)$", "compiling"),
        (r"/jax/_src/(array\.py:(_value|__(array|float|int|bool|complex|index|format|repr|str)__|item|tolist|"
         r"block_until_ready)|api\.py:block_until_ready)$", "synchronising"),
        (r"torch/cuda/(memory|graphs)\.py:(empty_cache|reset|memory_)", "allocator"),
        (r"torch/serialization\.py:.*save|torch/distributed/checkpoint/|safetensors|:save_pretrained$",
         "checkpoint"),
        (r"torch/utils/data/", "loader"),
        (r"/tokenization_utils_base\.py:(to|<dictcomp>)$|/accelerate/utils/operations\.py:send_to_device$",
         "copying"),
        (r"tokenization_|tokenizers/|sentencepiece|tiktoken|sacremoses", "tokenising"),
        (r"/logging/__init__\.py|/wandb/|tensorboard|/mlflow/|/tqdm/|/rich/|/loguru/", "logging"),
        (r"/(socket|ssl|selectors)\.py|/http/client\.py|/urllib|/requests/|/httpx/|/botocore/|/grpc/",
         "network"),
        (r"/(threading|queue)\.py:.*(wait|acquire|get|put|join)|/multiprocessing/(connection|queues|pool|"
         r"synchronize)\.py|/concurrent/futures/|/subprocess\.py:.*(wait|communicate|poll)", "lock"),
        (r"/(gzip|zipfile|tarfile|shutil|pathlib|tempfile)\.py|/h5py/|/zarr/|/npyio", "disk"),
        (r"torch/(nn|optim|autograd|_tensor|functional|_ops|cuda|amp|distributed|utils/checkpoint)|/apex/|"
         r"/flash_attn/|/triton/|torchinductor_|torch/(_functorch|_inductor|_dynamo)|/transformers/|/timm/|"
         r"torchvision/(models|ops)|/jax/_src/", "launching"),
    )
)  # fmt: skip
"""`<file>:<function>` of a library's frame, from the innermost one out; of a frame the first that fits."""

_TENSOR = (
    r"\b(?:\w+\.)*(?:\w*_)?(?:loss|losses\[[^\]]*\]|logits|(?:grad|total)_norm|acc|accuracy|correct)\b"
    r"(?:\.\w+\([^()]*\))*"
)
"""A name that a training loop hardly gives to anything but a tensor, and calls of its methods."""

_COMPARED = r"\s*(?:[<>]=?|[!=]=)"

_TEXT: tuple[tuple[re.Pattern[str], Activity], ...] = tuple(
    (re.compile(pattern), cast(Activity, activity))
    for pattern, activity in (
        (r"\bgc\.collect\(", "garbage collection"),
        (r"\bempty_cache\(|\bmemory_(stats|summary|snapshot)\(", "allocator"),
        (r"\btorch\.save\(|\bsave_(checkpoint|pretrained|file|model)\(|\bpickle\.dump\(", "checkpoint"),
        (r"\b(synchronize|block_until_ready)\(|\.item\(\)", "synchronising"),
        (SURE_TEXT, "synchronising"),
        (rf"{NO_ARRAY}.*(\btorch\..*|\.detach\(\)|{_TENSOR})\.(tolist|unique)\(", "synchronising"),
        (r"\.cpu\(|\.to\(\s*[\"']cpu", "copying"),
        (r"\.cuda\((?!.*non_blocking\s*=\s*True)|\.to\((?!.*non_blocking\s*=\s*True)\s*([^()]*\bdevice\s*=|"
         r"f?[\"'](cuda|xpu|mps)|torch\.device\(|\d+\s*[,)]|"
         r"(?i:([\w.\[\]\"']*[._])?(device|dev|rank|gpu))\b)|"
         r"\btorch\.(tensor|as_tensor)\(.*\bdevice\s*=\s*(?![\"']cpu)", "copying"),
        (rf"{NO_ARRAY}.*\b(float|int|bool)\(\s*{_TENSOR}\s*\)", "synchronising"),
        (rf"^\s*((el)?if|while|assert)\b.*(\btorch\.(isnan|isinf|isfinite|any|all)\(|\.is(nan|inf|finite)\(\)|"
         rf"\bis(nan|inf|finite)\(\s*{_TENSOR}|{_TENSOR}\s*[<>])", "synchronising"),
        (rf"{NO_ARRAY}.*(\w\[\s*~?\s*(\w+\.)*(\w*_)?(mask|keep|valid)\s*\]|"
         rf"\b(?P<of>\w+)\[\s*(?P=of){_COMPARED}[^\]\"']*\]|"
         rf"{_TENSOR}\[[^\]\"']*{_COMPARED}[^\]\"']*\])(?!\s*=[^=])", "synchronising"),
        (r"\bsleep\(", "sleeping"),
        (r"\btoken(iz|is)|\btokens? *= *.*\.(split|encode)\(", "tokenising"),
        (r"\b(log|logger|logging|wandb|writer)\.\w+\(|\bprint\(", "logging"),
        (r"\bopen\(|\.(read|write|flush|fsync)\(|\bfsync\(|\bnp\.(load|save|savez|fromfile|memmap)\(|"
         r"\bjson\.(load|dump)\(|\bread_(csv|parquet|table)\(|\bshutil\.", "disk"),
        (r"\.(acquire|join)\(\)|\block\b|\bqueue\.(get|put)\(", "lock"),
        (r"\brequests\.|\burlopen\(|\bsocket\.|\bhttpx?\.", "network"),
    )
)  # fmt: skip
"""
What the text of a line does; the first that fits.

That a line waits for the GPU is said only if hardly anything else is written so: the gap after it is taken to
be its own then. What looks the same on the host's own values, such as `float(v)` or `rows[i > 3]`, is Python.
"""

UPDATES = re.compile(r"\b\w*opt(im\w*)?\.step\(|\bscaler\.step\(")
"""The text of a line that runs an optimizer."""

_MAY_COPY = re.compile(r"\.(to|cuda|copy_)\((?!\s*(torch\.\w+|([\w.]*[._])?dtype)\s*[,)])|"
                       r"\b\w*(to_(device|gpu|cuda)|prepare_inputs?)\(")  # fmt: skip
"""
What may move data between host and GPU, by the text of a line: whether it does the names do not tell.

A cast alone (`.to(torch.bfloat16)`) does not, and on the host it takes time just so.
"""

_STAGES: tuple[tuple[re.Pattern[str], Stage], ...] = tuple(
    (re.compile(pattern), cast(Stage, stage))
    for pattern, stage in (
        (r"_utils/pin_memory\.py", "pinning"),
        (r"_utils/collate\.py|:collate|:\w*collate_fn", "collating"),
        (r"tokenization_|tokenizers/|sentencepiece|tiktoken", "tokenising"),
        (r"/PIL/|/cv2/|torchvision/io|/imageio/|/av/|/soundfile|torchaudio/(io|backend)", "decoding"),
        (r"torchvision/transforms|/albumentations/|/kornia/|torchaudio/(transforms|functional)",
         "augmenting"),
        (r"/npyio|/memmap\.py|/h5py/|/zarr/|/(gzip|zipfile|tarfile|pathlib|shutil|_pyio)\.py|/pathlib/|"
         r"/pandas/io|/pyarrow/|/lmdb|/(socket|ssl)\.py|/http/client\.py|/urllib3?/|/requests/|/httpx/|"
         r"/aiohttp/|/botocore/|/boto3/|/s3fs/|/gcsfs/|/fsspec/|/google/cloud/storage/", "reading"),
        (r"/multiprocessing/(queues|connection|reductions|resource_sharer)\.py", "sending"),
    )
)  # fmt: skip

_STAGE_TEXT: tuple[tuple[re.Pattern[str], Stage], ...] = tuple(
    (re.compile(pattern), cast(Stage, stage))
    for pattern, stage in (
        (r"^\s*(return|[\w, ]+=)\s*self\.\w+\[(i|idx|index|item|j|k|n)\]", "picking"),
        (r"\bImage\.open\(|\.convert\(|\bimdecode\(|\bimread\(|\bde(code|compress)", "decoding"),
        (r"\bopen\(|\.(read|readinto|read_bytes|read_text|fetch|download)\(|\bread_|"
         r"\bnp\.(load|fromfile|memmap)\(|\bpickle\.load\(|\bload", "reading"),
        (r"token|\.encode\(", "tokenising"),
        (r"\btransforms?\b|augment|\bflip|\bcrop|\bresize|\brotate|\bjitter|normal", "augmenting"),
        (r"\bstack\(|\bcollate|\bpad_sequence\(", "collating"),
    )
)  # fmt: skip
"""What the text of a worker's line does, or the name of its function; the first that fits."""

_READS = re.compile(r"^_*(read|fetch|download|get_(bytes|object|blob|file))(_|$)")
"""
Names of functions that read, whatever stands on their lines: what waits for a file server, or sleeps until
it tries again, has no name of its own.
"""

_TOKENISES = re.compile(r"(?i)tokeni[sz]|(^|[._])bpe(_|$)|wordpiece|sentencepiece")
"""Names of functions that tokenise, with the class that they are of: `Tokenizer.encode`."""

_PICKS = re.compile(r"/torch/utils/data/(_utils/fetch\.py|dataset\.py)")
"""Where time goes that no sample's own code takes: one sample at a time is asked for, and is a slice."""

_FETCHES = re.compile(r"/torch/utils/data/_utils/(fetch|pin_memory)\.py")
"""Below these a process makes a batch, or moves it to pinned memory."""

_STARTS_WORKERS = re.compile(
    r"/torch/utils/data/dataloader\.py:_shutdown_workers$|"
    r"/multiprocessing/(process\.py:(start|join)|popen_\w+\.py:(__init__|_launch|wait))"
)
"""Of a loader's stacks those in which its worker processes begin or end."""

_WORKER_WAITS = re.compile(r"_utils/worker\.py")
_TORCH = re.compile(r"(^|-packages/|/pytorch/)torch/")
"""Torch itself, and not what is installed below a folder of this name."""

_ARRAYS = re.compile(r"(^|/)(numpy|pandas|scipy|polars|pyarrow|sklearn|PIL|cv2)/")
"""What works on the host: a line that is in it waits for no GPU, whatever else stands on it."""

_LAUNCHER = re.compile(r"/bin/[^/]+$")

DEEPEST = 128
"""Frames of the program in a path, the outermost ones: deeper ones are of a function that calls itself."""

_KEPT = 65_536
"""Frames of which is kept what they mean: each stands in many stacks, and patterns take time."""

TextOf = Callable[[Frame], str]
"""The text of the line at which a frame is; empty where it is not known."""


def meaning(stack: Sequence[Frame], text_of: TextOf) -> Meaning:
    """What *stack*, the innermost frame first, means."""
    path = tuple(frame for frame in reversed(stack) if is_own(frame))
    if not path:  # a program that is a library itself: all of it but torch
        path = tuple(f for f in reversed(stack) if not _TORCH.search(f.file) and not f.file.startswith("<"))
    return Meaning(_activity(stack, text_of), path[:DEEPEST] or tuple(stack[-1:]))


def _activity(stack: Sequence[Frame], text_of: TextOf) -> Activity:
    below: list[Frame] = []
    for frame in stack:
        if is_own(frame):
            break
        below.append(frame)
    loads = any("torch/utils/data/" in f.file.replace("\\", "/") for f in stack)
    if loads:  # also where the main process makes its batches itself
        inside = any(_FETCHES.search(_where(f)) for f in stack)
        starts = not inside and any(_STARTS_WORKERS.search(_where(f)) for f in stack)
        return "starting workers" if starts else "loader"
    compiles = next((a for f in stack if (a := _by_library(f)) == "compiling"), None)
    if compiles is not None:
        return compiles
    if any(_by_library(f) == "checkpoint" for f in stack if not is_own(f)):
        return "checkpoint"  # also what it calls back: the program's own file, which may write to anything
    if below:
        if WAITING_FRAME.search(_where(below[0])):
            return "synchronising"
        for frame in below:
            found = _by_library(frame)
            if found not in (None, "launching"):
                assert found is not None
                return found
        # What the library's own line calls, for C has no frame.
        inner = _by_text(text_of(below[0]))
        arrays = any(map(works_on_arrays, below))
        if inner == "synchronising" and arrays:
            return "python"
        if inner in ("synchronising", "garbage collection", "allocator"):
            assert inner is not None
            return inner
        outer = _by_text(text_of(stack[len(below)])) if len(below) < len(stack) else None
        if outer in ("checkpoint", "tokenising", "garbage collection"):
            assert outer is not None
            return outer
        if any(_by_library(f) == "launching" for f in below):
            return "launching"
        # What waits in C has no frame below it but torch's, or code made by it: else the time is a library's.
        known = all(f.file.startswith("<") or _TORCH.search(f.file.replace("\\", "/")) for f in below)
        return "python" if outer is None or (outer in WAITS_FOR_GPU and not known) else outer
    return (_by_text(text_of(stack[0])) if stack else None) or "python"


@lru_cache(_KEPT)
def may_copy(text: str) -> bool:
    """Whether a line with this *text* may copy: it does if something is copied while the host is there."""
    return _MAY_COPY.search(text) is not None


@lru_cache(_KEPT)
def _by_library(frame: Frame) -> Activity | None:
    where = _where(frame)
    imports = frame.function == "<module>"  # of a compiler, too, which compiles nothing then
    fits = (activity for pattern, activity in _LIBRARY if pattern.search(where))
    return next((activity for activity in fits if not (imports and activity == "compiling")), None)


@lru_cache(_KEPT)
def _by_text(text: str) -> Activity | None:
    return next((activity for pattern, activity in _TEXT if pattern.search(text)), None)


def stage(
    stack: Sequence[Frame], text_of: TextOf, *, worker: bool = True
) -> tuple[Stage, Frame | None] | None:
    """
    What a process does for a batch, and the program's line for it; None where it waits, or does other things.

    *worker*: whether it is a worker of a DataLoader, not the main process, of which only what is below the
    loader's own frames is asked for.
    """
    fetch = next((k for k, f in enumerate(stack) if _FETCHES.search(_where(f))), None)
    if fetch is None and (not worker or any(_WORKER_WAITS.search(f.file) for f in stack)):
        return None
    inner = stack if fetch is None else stack[: fetch + 1]
    own = next((frame for frame in inner if is_own(frame)), None)
    for frame in inner:
        if frame == own:
            break
        found = _stage_by_library(frame)
        if found is not None:
            return found, own
    if own is not None:
        found = next((s for pattern, s in _STAGE_TEXT if pattern.search(text_of(own))), None)
        # The functions around it may be called after what they do.
        named = found or next((s for f in inner if is_own(f) and (s := _by_name(f))), None)
        return named or "other", own
    return ("picking", None) if inner and _PICKS.search(_where(inner[0])) else None


@lru_cache(_KEPT)
def _stage_by_library(frame: Frame) -> Stage | None:
    where = _where(frame)
    return next((s for pattern, s in _STAGES if pattern.search(where)), None)


@lru_cache(_KEPT)
def _by_name(frame: Frame) -> Stage | None:
    name = frame.function.rpartition(".")[2]
    if _READS.search(name):
        return "reading"
    if _TOKENISES.search(frame.function):
        return "tokenising"
    return next((s for pattern, s in _STAGE_TEXT if pattern.search(name)), None)


def _where(frame: Frame) -> str:
    path = frame.file.replace("\\", "/")
    return f"/{path.lstrip('/')}:{frame.function.rpartition('.')[2]}"


@lru_cache(_KEPT)
def works_on_arrays(frame: Frame) -> bool:
    """Whether a frame is of what works on arrays and images in host memory."""
    return _ARRAYS.search(frame.file.replace("\\", "/")) is not None


@lru_cache(_KEPT)
def is_own(frame: Frame) -> bool:
    """Whether a frame is of the program itself, not of a library, and not of what starts it."""
    if _LAUNCHER.search(frame.file):
        return False
    return is_users(Function(frame.file, frame.line, frame.function))
