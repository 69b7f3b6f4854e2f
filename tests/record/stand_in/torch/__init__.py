"""The parts of PyTorch that the agent touches; a program can print what it did with them."""

import os
import signal
import sys
import types
from collections import OrderedDict

__version__ = "2.99"
version = types.SimpleNamespace(cuda="13.0")
FAIL = ""  # "prepare", "start", "stop": the profiler raises there
CTRL_C = ""  # the same: there it comes right after the profiler has been called
RANGES = []  # names of the ranges that were opened, with "/" + name when one is closed
TRACING = []
CALLS = []  # what had been done with the profiler whenever CUDA was called


def _module(name):
    made = types.ModuleType(name)
    sys.modules[name] = made
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, made)
    return made


nn = _module("torch.nn")
_module("torch.nn.modules")
_nn = _module("torch.nn.modules.module")
_module("torch.optim")
_optim = _module("torch.optim.optimizer")
cuda = _module("torch.cuda")
cuda.is_initialized = lambda: False
cuda.synchronize = lambda: CALLS.append(list(TRACING))
_graphs = _module("torch.cuda.graphs")
autograd = _module("torch.autograd")
autograd._profiler_enabled = lambda: profile.at_work
_C = _module("torch._C")
_C._get_tracing_state = lambda: None
_autograd_profiler = _module("torch.autograd.profiler")


class Module:
    def _wrapped_call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    __call__ = _wrapped_call_impl

    def __setattr__(self, name, value):
        if isinstance(value, Module):
            vars(self).setdefault("_modules", {})[name] = value
        super().__setattr__(name, value)


class CUDAGraph:
    def __init__(self, work):
        self.work = work

    def capture_begin(self):
        TRACING.append("capture")

    def capture_end(self):
        pass

    def replay(self):
        self.work()


_nn.Module = nn.Module = Module
_graphs.CUDAGraph = cuda.CUDAGraph = CUDAGraph
REPLAY, CAPTURE_BEGIN, CAPTURE_END = CUDAGraph.replay, CUDAGraph.capture_begin, CUDAGraph.capture_end
_hooks = OrderedDict()


class _Handle:
    def __init__(self, key):
        self.key = key

    def remove(self):
        del _hooks[self.key]


def _register(hook):
    _hooks[id(hook)] = hook
    return _Handle(id(hook))


_optim.register_optimizer_step_post_hook = _register


class Optimizer:
    def step(self):
        for hook in _hooks.values():
            hook(self, (), {})


class record_function:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        RANGES.append(self.name)

    def __exit__(self, *_):
        RANGES.append("/" + self.name)


_autograd_profiler.record_function = record_function


class profile:
    ready = at_work = False

    def __init__(self, *, use_device, record_shapes, use_kineto):
        self.device = use_device

    def _do(self, what):
        if what == FAIL:
            raise RuntimeError(f"no {what} today")
        if what == "start" and not profile.ready:
            os._exit(139)  # as of a segmentation fault
        TRACING.append(what)
        profile.ready, profile.at_work = what == "prepare", what == "start"
        if what == CTRL_C and TRACING.count(what) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    def _prepare_trace(self):
        if profile.at_work:
            os._exit(139)
        self._do("prepare")

    def _start_trace(self):
        self._do("start")

    def __exit__(self, *_):
        self._do("stop")

    def export_chrome_trace(self, path):
        with open(path, "w") as file:
            file.write('{"traceEvents": []}')


_autograd_profiler.profile = profile


class emit_nvtx:
    def __enter__(self):
        if profile.at_work:
            raise RuntimeError("Profiler is already enabled on this thread.")
        TRACING.append("nvtx")


_autograd_profiler.emit_nvtx = emit_nvtx
