"""
The look inside a program with PyTorch: a few of its steps by its own profiler.

A look goes through these phases, in the program's main thread, between two of its statements:

    find     the first optimizer whose step ends, or where none steps the outermost module that is called
             again and again, or the CUDA graph that is replayed, marks a step; a step may hold many forward
             and backward passes
    measure  for some steps from that mark on: how long one takes, and so how many are traced; "found" is said
    prepare  at the first mark after the recorder's word the profiler gets ready; "ready" is said
    start    at the first mark after the recorder's word it starts
    trace    for some steps; a range is open around each step and module call
    end      the profiler stops, and what was put into the program is taken out again

Module calls are seen through `torch.nn.Module.__call__`, and replays in the same way, not through global
hooks: beside those torch.compile warns, and calls them twice. Where a module was called stands in the name of
its range: the profiler's own stacks (with_stack) rest on what `Module.__call__` looks like inside. Nothing
here may raise into the program (but see `Look._make_way`); what goes wrong ends the look.

A look ends in one of two ways. Until the profiler is touched any thread may end it, and whoever takes the
look's only token does (`Look._claim`). From then on the main thread has the token: only the thread that
started the profiler can stop it. Everybody else says why it shall end (`Look._end`) and has the main thread
called between two of its statements (`Look._call_main`), which works in a program that calls no module any
more. What of ours runs in the program's threads runs in `Look._within`, is never ended in its midst, and ends
the look itself if it was asked to meanwhile. A phase begins before the profiler is called for it, for a
Ctrl-C may come right after: what was done by then `Look._shut` asks the profiler itself.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import time

MYPY = False
if MYPY:
    from types import FrameType
    from typing import Any

FORWARDS = 3
"""So many calls of the outermost module, and `NO_OPTIMIZER_S`, and no optimizer's step: inference."""

NO_OPTIMIZER_S = 2.0

LONGEST_STEP_S = 10.0
"""Of an optimizer: the hook on its steps is not taken out while one runs."""

DEEPEST = 40
"""Modules in modules: a program near Python's limit of 1,000 frames must not meet it because of us."""

MOST_MODULES = 100_000

MEASURE_S = 0.3
"""A host that runs ahead steps faster than the GPU, until it is as far ahead as it can be."""

LISTEN_EVERY_S = 0.01
"""How often, during a look, the thread listens to the recorder: some 20 us of the GIL each time."""

LATE_EVERY_S = 1.0
"""The same when the look is to end, and the program's main thread has not come to it."""

GO_WITHIN_S = 5.0
"""And two steps: how long a profiler that is ready waits for the recorder's word, and then for a step."""

TRACE_S = 1.0
"""And twice the time that the steps took before: how long they may take when they are traced."""

MOST_GROWN = 64 << 20
"""
Bytes of memory that the process may gain in the traced steps.

PyTorch 2.13 takes 2.8 KB for an operator, so these are 24,000. To stop takes 50 us and 19 KB more for each,
and to write it 13 us: 1.5 s and 0.5 GB (a CPU, 2026-11-30). A ResNet-50 has some 1,000 in a step.
"""

WAY_S = 10.0
"""How long another thread that begins to profile waits for the main thread to have stopped ours."""

WAKE_EVERY_S = 0.2
"""How often it wakes the main thread meanwhile, which may be waiting for that very thread."""

WAKES = 57
"""The signal for that: one of those for real time, which neither glibc nor Python use."""

TEARDOWN = "TEARDOWN_CUPTI"
"""
In the environment, "1" has Kineto take CUPTI out of the process when it stops. Else CUPTI stays, and costs.

Launches of small kernels took 33 % longer after one profile, and replays of a CUDA graph 12 %; with it 0 and
0 % (PyTorch 2.11, an H200, 2026-11-30; PyTorch's issue 144455). A graph that was captured while CUPTI was
there may point to memory of CUPTI's: then it is left in ("0"), as it is where it was asked for all the same
(`may_stay`).

Kineto takes it out at the end of the next call of CUDA, and looks at the variable again then. So we call CUDA
(`LEAVE_CALLS`), and put the variable back as it was (`PUT_BACK_S`): with "1" every second of the program's
own later profiles, one right after the other, had no kernels, without it each had its 600 (PyTorch 2.11, CUDA
13.0, an H200, 2026-11-30).
"""

LEAVE_CALLS = 20
"""A millisecond apart: a thread of Kineto's asks for the end, and CUPTI is out before the program goes on."""

PUT_BACK_S = 1.0
"""After the look: by then Kineto has read it for the last time."""

TAKEN_OUT_SINCE = (12, 6)
"""The first CUDA of which CUPTI can be taken out where graphs were traced (PyTorch's pull request 150957)."""

HELD_S = 0.03
"""
For so long beyond its wait the agent's thread has to have been without the GIL, for a full collection of
Python's garbage that ended meanwhile to be told. Python code lets go of the GIL every 5 ms.
"""

MOST_COLLECTIONS = 40

QUIET = ("find", "measure", "found", "ready", "start", "trace")
"""Phases in which nothing of the profiler's holds the GIL for long; it does between two of them."""

SILENT = "99"
"""A severity that no message of Kineto has."""


_CALLS: list[_Call] = []
"""What the interpreter has been asked to call: it does not keep it alive itself."""


def refusal() -> str:
    """Why no look can be taken with PyTorch's profiler; empty if one can."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python runs without the GIL"
    for name in ("torch.nn.modules.module", "torch.optim.optimizer", "torch.autograd.profiler"):
        if name not in sys.modules:
            return f"{name} is not loaded"
    return "the program profiles itself" if _profiles(sys.modules["torch"]) else ""


def _profiles(torch: Any) -> bool:
    """Whether a profiler is at work in this thread."""
    return bool(getattr(torch.autograd, "_profiler_enabled", lambda: False)())


def _leave_at_once() -> None:
    """
    Let this child end without the destructors of C++, when its Python has ended.

    A thread of Kineto waits for changes of its configuration from the first use of the profiler on. A child
    has not that thread, and its destructor waits for it for ever (PyTorch 2.13). `on_exit` is glibc's; what
    is registered last runs first.
    """
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        libc.on_exit(libc._exit, None)
    except Exception:
        pass


def _is_our(path: str) -> bool:
    """Whether a file is the agent's."""
    return os.path.dirname(path) == os.path.dirname(__file__)


def _is_theirs(error: BaseException) -> bool:
    """Whether the program raised it, in a handler of a signal that came while we were at work."""
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not _is_our(path) and "/torch/" not in path and not path.startswith("<frozen"):
            return True
        trace = trace.tb_next
    return False


def _wake(thread: int) -> None:
    """Interrupt a thread in its wait for a lock: it does what it has been asked to, and waits on."""
    try:
        import ctypes
        import signal

        libc = ctypes.CDLL(None)
        libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        nothing = ctypes.cast(libc.abs, ctypes.c_void_p).value  # which does nothing with the signal's number
        before = libc.signal(WAKES, nothing)
        if before in (None, nothing):
            libc.siginterrupt(WAKES, 1)
            signal.pthread_kill(thread, WAKES)
        else:  # somebody else's
            libc.signal(WAKES, before)
    except Exception:
        pass


def _resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Call:
    """Does something when it is asked whether it is true, which a C function can do that is called later."""

    def __init__(self, do: Any) -> None:
        self._do = do

    def __bool__(self) -> bool:
        self._do()
        return False


def _parts(module: Any) -> list[tuple[str, Any]]:
    """A module and those in it with their names, as `named_modules` has them, by no code of the program's."""
    found: list[tuple[str, Any]] = [("", module)]
    seen = {id(module)}
    for name, part in found:  # it grows
        inner = getattr(part, "__dict__", {}).get("_modules")
        for own, below in inner.items() if isinstance(inner, dict) else ():
            if below is not None and id(below) not in seen and len(found) < MOST_MODULES:
                seen.add(id(below))
                found.append((f"{name}.{own}" if name else own, below))
    return found


class _Collections:
    """
    Full collections of Python's garbage, seen by a thread that wants the GIL every few ms.

    Nothing is put into the program: Python counts its collections (`gc.get_stats`), and whoever collects
    holds the GIL all the while. So where one more has ended when this thread has the GIL again, it took as
    long as the thread had to wait. `gc.callbacks` would tell exactly, by calls in the program's threads.
    """

    def __init__(self) -> None:
        import gc

        self._stats, self._enabled = gc.get_stats, gc.isenabled
        self._count = self._full()
        self._at = time.monotonic()
        self.seen: list[list[float]] = []
        self.watched_s = 0.0

    def _full(self) -> int:
        return int(self._stats()[-1]["collections"])

    def look(self, waited_s: float, *, quiet: bool) -> None:
        """What happened while the thread waited *waited_s* on purpose; *quiet*: and we held up nothing."""
        now, count = time.monotonic(), self._full()
        held_s, more = now - self._at - waited_s, count - self._count
        if quiet:
            self.watched_s += now - self._at
            if more > 0 and held_s >= HELD_S and len(self.seen) < MOST_COLLECTIONS:
                self.seen.append([time.time_ns(), round(held_s, 6)])
        self._at, self._count = now, count

    def told(self) -> dict[str, Any]:
        """What to say of them."""
        return {
            "collections": self.seen,
            "watched_s": round(self.watched_s, 6),
            "collects_itself": self._enabled(),
        }


class Look:
    """
    One look: `take` waits in the agent's thread while the program's threads call what was put into them.

    *main* is the main thread, and *cupti* the module for programs without PyTorch, which knows JAX's graphs.
    `_at` are the Unix ns at which the traced steps began and the last one ended.
    """

    def __init__(self, request: dict[str, Any], talk: Any, *, to: str, main: int, cupti: Any) -> None:
        self._steps = int(request["steps"])
        self._most_steps = int(request.get("most_steps", self._steps))
        self._least_s = float(request.get("least_s", 0.0))
        self._talk, self._main, self._cupti = talk, main, cupti
        self._to = to
        self._within_s = float(request.get("within_s", 60.0))
        self._torch: Any = sys.modules["torch"]
        self._wrapped: list[tuple[Any, str, Any, Any]] = []  # a class, an attribute, its value and ours
        self._range: Any = sys.modules["torch.autograd.profiler"].record_function
        self._over = _thread.allocate_lock()
        self._over.acquire()
        self._phase = "find"
        self._token: list[None] = [None]  # whoever takes it may end the look, or begin to profile
        self._late = False  # it is to end
        self._why = ""
        self._ended = False
        self._called = False  # the main thread, to end it
        self._traced = False  # the profiler has stopped after its steps
        self._begun = self._marked = time.monotonic()
        self._last = (self._begun + self._within_s, f"no step began and ended in {self._within_s:.0f} s")
        self._until = self._last  # when to end it, and why
        self._step_s = 0.0
        self._resident = 0
        self._measured = 0
        self._optimizer_hook: Any = None
        self._optimizer: int | None = None  # the one whose steps count, by id: nothing is kept alive
        # Where no optimizer steps: the outermost module or graph whose calls count.
        self._root: int | None = None
        self._calls: dict[int, int] = {}
        self._depth: dict[int, int] = {}  # by thread
        self._names: dict[int, str] = {}
        self._profile: Any = None
        self._is_over = False
        self._used = False  # the profiler has been at work in this process, or is
        self._may_stay = bool(request.get("may_stay"))  # CUPTI, where it cannot be taken out
        self._replays = False  # CUDA graphs
        self._capturing = 0  # graphs
        self._captured = False  # a graph, while CUPTI was in the process
        self._keeps = False  # CUPTI stays
        self._variable: tuple[str | None, str] | None = None  # TEARDOWN before us, and ours
        self._prepared = False  # it is ready for sure
        self._step_range: Any = None
        self._at: list[int] = []
        self._cost_s = 0.0
        self._collections: _Collections | None = None

    def take(self) -> dict[str, Any]:
        """Put the marks in, wait, take them out; returns what to tell."""
        try:
            self._put_in()
            self._wait()
            if self._traced:
                self._talk.tell(traced={})
        finally:  # whatever goes wrong in this thread
            self._take_out()
        said = self._export() if self._traced else {"refused": self._why}
        if self._collections is not None:
            said = {**said, **self._collections.told()}
        return {**said, "stays": True} if self._keeps and self._used else said

    def _wait(self) -> None:
        """Until the look has ended."""
        os.register_at_fork(before=self._before_fork, after_in_child=self._forked)
        self._collections = _Collections()
        while True:
            phase, wait_s = self._phase, LATE_EVERY_S if self._late else LISTEN_EVERY_S
            if self._over.acquire(True, wait_s):
                return
            try:
                self._collections.look(wait_s, quiet=phase in QUIET and self._phase == phase)
                if self._late:
                    self._call_main()
                else:
                    self._listen()
                    self._limit()
            except Exception as error:
                self._end(f"{type(error).__name__}: {error}")

    def _export(self) -> dict[str, Any]:
        begun = time.monotonic()
        # Where the recorder has gone, and its folder with it, Kineto would say so on stderr.
        os.close(os.open(self._to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        self._profile.export_chrome_trace(self._to)  # it holds the GIL meanwhile
        self._profile = None
        export_s = time.monotonic() - begun
        return {
            "looked": {
                "at_ns": self._at,
                "by": "optimizer" if self._optimizer is not None else "module",
                "cost_s": round(self._cost_s + export_s, 6),
                "export_s": round(export_s, 6),
                "torch": str(self._torch.__version__),
            }
        }

    def _listen(self) -> None:
        """Let the phase follow the recorder's word."""
        said = self._talk.hear(wait=False)
        if self._talk.over:
            self._end("the recorder has gone")
        elif said is not None and "prepare" in said and self._phase == "found":
            self._phase = "prepare"
        elif said is not None and "go" in said and self._phase == "ready":
            self._allow(GO_WITHIN_S + 2 * self._step_s, "no step began when all was ready")
            self._phase = "start"

    def _allow(self, seconds: float, why: str) -> None:
        """From now on, and no longer than the whole look may take."""
        self._until = min(self._last, (time.monotonic() + seconds, why))

    def _limit(self) -> None:
        """End a look that takes too long, or whose trace grows too large."""
        until, why = self._until
        if time.monotonic() > until:
            self._end(why)
        elif self._phase == "trace" and self._resident and _resident() > self._resident + MOST_GROWN:
            self._end("its steps are too many operators to be traced")

    # --- what is put into the program ---

    def _put_in(self) -> None:
        self._wrap(sys.modules["torch.nn.modules.module"].Module, "__call__")
        graphs: Any = sys.modules.get("torch.cuda.graphs")
        if hasattr(graphs, "CUDAGraph"):  # its modules are not called when it is replayed
            self._wrap(graphs.CUDAGraph, "replay")
            for name in ("capture_begin", "capture_end"):
                if hasattr(graphs.CUDAGraph, name):
                    self._notice(graphs.CUDAGraph, name)
        # Two profilers at once end the process with a segmentation fault (PyTorch 2.13): ours makes way.
        profiler = sys.modules["torch.autograd.profiler"]
        self._guard(profiler.profile, "_prepare_trace")
        for name in ("emit_nvtx", "emit_itt"):
            if hasattr(profiler, name):
                self._guard(getattr(profiler, name), "__enter__")

    def _notice(self, owner: Any, name: str) -> None:
        """
        A graph that is captured while CUPTI is there holds what CUPTI put into it.

        A program that captured one inside a profile died of a segmentation fault (PyTorch 2.11): a look that
        has touched the profiler makes way, and one that has not waits for the capture's end.
        """
        look, theirs = self, getattr(owner, name)
        begins = name == "capture_begin"

        def ours(self: Any, *args: Any, **kwargs: Any) -> Any:
            look._capturing = look._capturing + 1 if begins else max(0, look._capturing - 1)
            if look._used and not look._ended:
                look._captured = True
                if begins:
                    look._make_way("it captures a CUDA graph")
            return theirs(self, *args, **kwargs)

        self._replace(owner, name, theirs, ours)

    def _guard(self, owner: Any, name: str) -> None:
        look, theirs = self, getattr(owner, name)

        def ours(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self is not look._profile:
                look._make_way("the program profiles itself")
            return theirs(self, *args, **kwargs)

        self._replace(owner, name, theirs, ours)

    def _make_way(self, why: str) -> None:
        """The program begins what must not be while we profile it, in whichever thread."""
        self._end(why)
        if _thread.get_ident() == self._main:
            return
        begun = waked = time.monotonic()
        while not self._ended:
            now = time.monotonic()
            if (
                now > begun + WAY_S
            ):  # an exception, as PyTorch's own of two profilers in a thread, or a SIGSEGV
                raise RuntimeError("perfzero profiles the main thread, which could not be told to stop it")
            if now > waked + WAKE_EVERY_S:
                waked = now
                _wake(self._main)
            time.sleep(0.001)

    def _wrap(self, owner: Any, name: str) -> None:
        look, theirs = self, getattr(owner, name)
        compiling = getattr(getattr(self._torch, "compiler", None), "is_compiling", bool)

        # PyTorch finds the module in the local variable `self` (torch/csrc/autograd/profiler_python.cpp).
        def ours(self: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling():  # torch.compile reads the program: it must find nothing else here
                return theirs(self, *args, **kwargs)
            if look._is_over:  # somebody had wrapped ours, or has put it back
                look._unwrap()
                return theirs(self, *args, **kwargs)
            entered = look._enter(self)
            try:
                return theirs(self, *args, **kwargs)
            finally:
                look._leave(entered)

        try:  # nor is this to be compiled itself
            sys.modules["torch._C._dynamo.eval_frame"].skip_code(ours.__code__)
        except Exception:
            pass
        self._replace(owner, name, theirs, ours)

    def _replace(self, owner: Any, name: str, theirs: Any, ours: Any) -> None:
        for known in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            setattr(ours, known, getattr(theirs, known, None))  # so that it can be pickled, by its name
        setattr(owner, name, ours)
        self._wrapped.append((owner, name, theirs, ours))

    def _unwrap(self) -> None:
        """Where somebody has wrapped ours meanwhile it has to stay, and does nothing any more."""
        for owner, name, theirs, ours in self._wrapped:
            if getattr(owner, name) is ours:
                setattr(owner, name, theirs)

    def _take_out(self) -> None:
        self._is_over = True
        self._unwrap()
        hook, self._optimizer_hook = self._optimizer_hook, None
        if hook is not None:
            # The program's thread may be on its way through the hooks, which must not change then.
            deadline = time.monotonic() + LONGEST_STEP_S
            while _stepping():
                if time.monotonic() > deadline:
                    return  # it stays, and does nothing any more
                time.sleep(0.0005)
            hook.remove()

    def _within(self, do: Any, *args: Any) -> Any:
        """Do something of ours in a thread of the program, into which it does not raise."""
        try:
            return do(*args)
        except BaseException as error:
            self._ask(f"{type(error).__name__}: {error}")
            if not isinstance(error, Exception) or _is_theirs(error):  # a Ctrl-C is the program's
                raise
            return None
        finally:
            if self._late:
                self._settle()

    def _enter(self, module: Any) -> tuple[int, Any] | None:
        """A module is called; what `_leave` gets."""
        if self._ended:
            return None
        entered: tuple[int, Any] | None = self._within(self._open_module, module, sys._getframe(2))
        return entered

    def _open_module(self, module: Any, caller: FrameType) -> tuple[int, Any] | None:
        if not isinstance(module, self._wrapped[0][0]):
            self._replays = True
        thread = _thread.get_ident()
        depth = self._depth.get(thread, 0)
        if depth >= DEEPEST:  # each level takes a frame more than without us
            self._ask("its modules are nested too deeply")
            return None
        self._depth[thread] = depth + 1
        if depth == 0:
            self._outermost(module)
        opened = None
        if self._phase == "trace" and not self._is_recorded():
            opened = self._range(self._name(module, caller))
            opened.__enter__()
        return thread, opened

    def _leave(self, entered: tuple[int, Any] | None) -> None:
        if entered is not None:
            self._within(self._close_module, *entered)

    def _close_module(self, thread: int, opened: Any) -> None:
        self._depth[thread] -= 1
        if opened is not None:
            opened.__exit__(None, None, None)

    def _is_recorded(self) -> bool:
        """Whether torch.jit.trace or the like writes the program down: ranges would be part of it."""
        c = getattr(self._torch, "_C", None)
        tracing = getattr(c, "_get_tracing_state", lambda: None)() is not None
        return tracing or bool(getattr(c, "_len_torch_dispatch_stack", lambda: 0)())

    def _outermost(self, module: Any) -> None:
        if self._phase == "find":
            if self._optimizer_hook is None:
                # From here, for here the program is not on its way through the optimizer's hooks.
                register = sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook
                self._optimizer_hook = register(self._optimizer_stepped)
            calls = self._calls[id(module)] = self._calls.get(id(module), 0) + 1
            if calls > FORWARDS and time.monotonic() - self._begun > NO_OPTIMIZER_S:
                self._root = id(module)
                self._mark()
        elif self._optimizer is None and id(module) == self._root:
            self._mark()
        # Not before: we may have come in the midst of a forward pass, where a part seems to be the outermost.
        if self._phase in ("ready", "start", "trace") and id(module) not in self._names:
            for name, part in _parts(module):
                self._names.setdefault(id(part), _plain(name))

    def _optimizer_stepped(self, optimizer: Any, *_: Any) -> None:
        if not self._ended:
            self._within(self._stepped, optimizer)

    def _stepped(self, optimizer: Any) -> None:
        if self._phase == "find" and self._optimizer is None:
            self._optimizer = id(optimizer)
        if id(optimizer) == self._optimizer:
            self._mark()

    def _name(self, module: Any, caller: FrameType | None) -> str:
        """Of the range around a call: the module's place in the model, its class, and where it was called."""
        while caller is not None and _is_library(caller.f_code.co_filename):
            caller = caller.f_back
        where = "" if caller is None else f"{caller.f_code.co_filename}:{caller.f_lineno}"
        if not isinstance(module, self._wrapped[0][0]):
            return f"perfzero.replay|{where}"
        return f"perfzero.module|{self._names.get(id(module), '?')}|{type(module).__name__}|{where}"

    def _before_fork(self) -> None:
        """A child of the thread that is profiled would be profiled as well, for ever."""
        if not self._token and _thread.get_ident() == self._main:
            self._end("it forks")

    def _forked(self) -> None:
        """In a child: the look is its parent's."""
        self._ended = self._is_over = True
        atexit.unregister(self._end)
        self._unwrap()
        self.put_back(0.0)
        if self._used:
            _leave_at_once()

    # --- from mark to mark ---

    def _mark(self) -> None:
        """A step has ended, and the next one begins."""
        if self._phase == "find":
            if _thread.get_ident() != self._main:  # which Kineto cannot do without words on stderr
                self._ask("its steps are not in the main thread")
            elif _profiles(self._torch):
                self._ask("the program profiles itself")
            else:
                self._marked, self._phase = time.monotonic(), "measure"
            return
        if self._phase == "measure":
            self._measured += 1
            passed = time.monotonic() - self._marked
            if passed < MEASURE_S:
                return
            self._step_s = passed / self._measured
            wanted = int(self._least_s / max(self._step_s, 1e-6)) + 1
            self._steps = max(self._steps, min(self._most_steps, wanted))
            self._phase = "found"
            self._talk.tell(found={"step_s": round(self._step_s, 6), "steps": self._steps})
            return
        if self._phase not in ("prepare", "ready", "start", "trace") or self._late:
            return
        if _thread.get_ident() != self._main or (self._phase == "prepare" and self._is_capturing()):
            return
        begun = time.monotonic()
        if self._phase != "trace" and _profiles(self._torch):
            self._ask("the program profiles itself")
        elif self._phase == "prepare" and not self._may_stay and (why := self._stays()):
            self._ask(why)
        elif self._phase == "prepare":
            if self._claim():
                self._prepare()
                self._talk.tell(ready={})
        elif self._phase == "start":
            self._phase = "trace"
            self._profile._start_trace()
            self._resident = _resident()
            self._allow(TRACE_S + 2 * self._steps * self._step_s, "its traced steps took too long")
            self._at.append(time.time_ns())
            self._open_step()
        elif self._phase == "trace" and self._step_range is not None:
            self._step_range.__exit__(None, None, None)
            self._at.append(time.time_ns())
            if len(self._at) <= self._steps and not self._is_full():
                self._open_step()
            else:
                self._phase = "stop"
                self._stop_profile()
                self._traced = True
        self._cost_s += time.monotonic() - begun
        if self._traced:
            self._finish()

    def _is_full(self) -> bool:
        """Whether one step more would be too much."""
        done = len(self._at) - 1
        return (_resident() - self._resident) * (done + 1) > MOST_GROWN * done

    def _stays(self) -> str:
        """Why CUPTI could not be taken out of the program again, in words; empty where it can."""
        if not self._torch.cuda.is_initialized():
            return ""
        if os.environ.get(TEARDOWN, "1") != "1":
            return f"with {TEARDOWN}={os.environ[TEARDOWN]} it would stay slower; --agent looks all the same"
        if self._cupti.makes_graphs():
            return "JAX makes CUDA graphs in it, and it would stay slower; --agent looks all the same"
        cuda = str(self._torch.version.cuda)
        version = tuple(int(part) for part in cuda.split(".")[:2] if part.isdigit())
        if self._replays and version < TAKEN_OUT_SINCE:
            return (
                f"it replays CUDA graphs, and with CUDA {cuda} would stay slower; --agent looks all the same"
            )
        return ""

    def _is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured, as far as is known of other threads."""
        asks = getattr(self._torch.cuda, "is_current_stream_capturing", bool)
        return bool(self._capturing or (self._torch.cuda.is_initialized() and asks()))

    def _keep(self, *, keep: bool) -> None:
        """Tell Kineto whether CUPTI is to stay in the process."""
        self._keeps = keep
        before = os.environ.get(TEARDOWN) if self._variable is None else self._variable[0]
        os.environ[TEARDOWN] = ours = "0" if keep else "1"
        self._variable = (before, ours)

    def put_back(self, after_s: float = PUT_BACK_S) -> None:
        """Leave the environment as it was, unless somebody has changed it meanwhile."""
        if self._variable is None:
            return
        time.sleep(after_s)
        (before, ours), self._variable = self._variable, None
        if os.environ.get(TEARDOWN) == ours:
            if before is None:
                del os.environ[TEARDOWN]
            else:
                os.environ[TEARDOWN] = before

    def _stop_profile(self) -> None:
        if self._captured and not self._keeps and self._variable is not None:
            self._keep(keep=True)
        self._profile.__exit__(None, None, None)
        if self._variable is not None and not self._keeps:
            self._call_cuda()

    def _call_cuda(self) -> None:
        """So that CUPTI is out before the program goes on."""
        for _ in range(LEAVE_CALLS):
            if self._is_capturing():  # it would fail, and end the capture
                return
            try:
                self._torch.cuda.synchronize()
            except Exception:  # what it finds the program will find
                return
            time.sleep(0.001)

    def _prepare(self) -> None:
        # `torch.profiler`, built on this one, imports torch._inductor: 1.6 s in a program that has not.
        profile = sys.modules["torch.autograd.profiler"].profile
        device = "cuda" if self._torch.cuda.is_initialized() else None
        if device is not None:
            self._keep(keep=bool(self._stays()))
        self._profile = profile(use_device=device, record_shapes=True, use_kineto=True)
        self._used = True
        # A process that ends while it is profiled dies of a segmentation fault (PyTorch 2.13).
        atexit.register(self._end, "it ended before its steps had")
        # It reads this when it is used for the first time, and would tell on stderr what it does.
        quiet = "KINETO_LOG_LEVEL" not in os.environ
        if quiet:
            os.environ["KINETO_LOG_LEVEL"] = SILENT
        self._phase = "ready"
        try:
            self._profile._prepare_trace()
            self._prepared = True
        finally:
            if quiet:
                os.environ.pop("KINETO_LOG_LEVEL", None)
        self._allow(GO_WITHIN_S + 2 * self._step_s, "the recorder was not ready in time")

    def _open_step(self) -> None:
        self._step_range = self._range(f"perfzero.step|{len(self._at) - 1}")
        self._step_range.__enter__()

    # --- the end ---

    def _end(self, why: str) -> None:
        """End the look for that reason, from whichever thread; the program goes on as if nothing had been."""
        self._ask(why)
        if not _is_within():
            self._settle()

    def _ask(self, why: str) -> None:
        """The first reason counts."""
        if not self._late:
            self._why, self._late = why, True

    def _claim(self) -> bool:
        """Whether it is the caller's from now on; the interpreter lets one of them have it."""
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    def _settle(self) -> None:
        """End the look, here or in the main thread."""
        if self._ended:
            return
        if self._claim():
            self._finish()
        elif _thread.get_ident() == self._main:
            self._stop()
        else:
            self._call_main()

    def _call_main(self) -> None:
        """Have the look ended between two statements of the main thread, whatever it does."""
        if self._called:
            return
        self._called = True
        try:
            import ctypes

            python = ctypes.PyDLL(None)  # our own: `ctypes.pythonapi` is the program's, too
            python.Py_AddPendingCall.argtypes = (ctypes.c_void_p, ctypes.py_object)
            # It calls `__bool__`, and what is raised there, as by a Ctrl-C, reaches the program.
            later = ctypes.cast(python.PyObject_IsTrue, ctypes.c_void_p)
            _CALLS.append(_Call(self._end_in_main))
            self._called = python.Py_AddPendingCall(later, _CALLS[-1]) == 0
        except Exception:  # then it ends with the next module that the main thread calls
            pass

    def _end_in_main(self) -> None:
        if _thread.get_ident() == self._main and not _is_within():
            self._settle()

    def _stop(self) -> None:
        """End the look in the main thread, with the profiler, wherever that is."""
        interrupt: BaseException | None = None
        for _ in range(3):  # a Ctrl-C may come before the profiler has been reached
            try:
                self._shut()
                break
            except Exception:
                break
            except BaseException as error:
                interrupt = error
        self._phase, self._profile, self._traced = "failed", None, False
        self._finish()
        if interrupt is not None:
            raise interrupt

    def _shut(self) -> None:
        if self._profile is None:
            return
        if not _profiles(self._torch):
            if self._phase == "stop":
                return
            # One that is ready has to start before it can stop; one that is not dies of a segmentation fault.
            if not self._prepared:
                self._profile._prepare_trace()
            self._profile._start_trace()
        self._phase = "stop"
        self._stop_profile()

    def _finish(self) -> None:
        self._ended = True
        atexit.unregister(self._end)
        try:
            self._over.release()
        except RuntimeError:  # it is over already
            pass


def _is_within() -> bool:
    """Whether this thread is in the midst of `Look._within`, which ends the look itself if it is to."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is Look._within.__code__:
            return True
        frame = frame.f_back
    return False


def _plain(name: str) -> str:
    """A module's name without what wrappers add to it."""
    parts = [
        part for part in name.split(".") if part not in ("_fsdp_wrapped_module", "_checkpoint_wrapped_module")
    ]
    while parts and parts[0] in ("module", "_orig_mod"):
        del parts[0]
    return ".".join(parts)


def _is_library(path: str) -> bool:
    """Whether a file is not the user's to change: an installed package, Python itself, or this one."""
    return path.startswith("<") or _is_our(path) or any(part in path for part in _INSTALLED)


_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python")


def _stepping() -> bool:
    """Whether a thread is inside an optimizer's step."""
    for running in sys._current_frames().values():
        frame: FrameType | None = running
        while frame is not None:
            if frame.f_code.co_filename.endswith("torch/optim/optimizer.py"):
                return True
            frame = frame.f_back
    return False
