"""
The look inside: asleep in the observed program until the recorder asks, then a few steps of its own profiler.

This file runs in the program's Python, of any version from 3.8 on, without perfzero installed there: standard
library only, and as little of it as possible. Until a framework is imported there is nothing but a finder
that waits for that import. Then one thread waits on the recorder's socket, until its one look is over. It is
none of `threading`'s, so the program does not count it, and a process of `multiprocessing` that feeds another
one does not have it. It takes none of the program's signals (`_deaf`).

    recorder: {"look": {"steps": 3, "most_steps": 40, "least_s": 0.15, "within_s": 60, "period_s": 0.1}}
    agent:    {"found": {"step_s": 0.1, "steps": 3}}
    recorder: {"prepare": {}}
    agent:    {"ready": {}}
    recorder: {"go": {}}
    agent:    {"traced": {}}
    agent:    {"looked": {"at_ns": [...], "cost_s": 0.8, ...}}

Instead of each of its answers the agent may say {"refused": "why"}; that is the last one. What the recorder
does between them, such as taking the hardware counters, is its own affair, and never waited for: the program
goes on, and looks at each step whether the word has come. The trace goes into a file beside the socket,
`trace-PID`. How a look is taken stands in `_perfzero_torch` and `_perfzero_cupti`, which are read when one is
asked for. Nothing here may raise into the program.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

MYPY = False
if MYPY:
    from typing import Any

FRAMEWORKS = ("torch", "jax", "cupy", "numba.cuda")
AGENT = 1
"""The version of what is said over the socket."""

ASLEEP_S = 1.0
"""From the import of the framework on: until then a worker process has been told that it is one."""

WITHOUT_TORCH = "it uses its GPU without PyTorch; --agent looks all the same"
"""
CUPTI stays in programs with CUDA graphs, as JAX's are. And until it has been seen on GPUs that it comes and
goes without harm in others, as it is done now, there is no look unless it is asked for by name: taken out
without a thought of graphs it left six programs alone, and ended three that had some (an H200, 2026-11-30).
"""

LONGEST_REQUEST = 65536

STACK = 8 << 20
"""Bytes of our thread's, however small the program has its own: __cxa_demangle alone takes some 70 KB."""

FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGABRT")
"""Signals that a thread sends itself: who handles those of the program is to handle ours, too."""


_begun = ""
"""The address of the recorder for which we have begun."""

_MAIN = _thread.get_ident()
"""The thread that starts the program reads this file first."""


def begin(address: str | None = None, main: int | None = None) -> None:
    """
    Start to wait, once for each recorder's address: the one it has left for those that it starts, or gives.

    *main* is the main thread, where another one has read this file.
    """
    global _begun, _MAIN
    address = address or os.environ.get("PERFZERO_AGENT")
    if not address or _begun == address:
        return
    _begun, _MAIN = address, main or _MAIN
    if any(name in sys.modules for name in FRAMEWORKS):
        _start(address)
    else:
        sys.meta_path.insert(0, _Wait(address))


def _start(address: str) -> None:
    """Start our thread; the size of stacks is that of all threads that are started meanwhile."""
    before = _thread.stack_size(STACK)
    try:
        _thread.start_new_thread(_serve, (address,))
    finally:
        _thread.stack_size(before)


def _deaf() -> None:
    """
    Let this thread take no signal, whichever the program blocks in its own later on, to wait for it.

    The kernel gives a signal to any thread that does not block it: to ours, and so the program would end of
    it. It is blocked here and not where the thread is started: there a handler of the program's would run,
    and what that raises would be lost.
    """
    import _signal  # type: ignore[import-not-found]

    numbers = {getattr(_signal, name, 0) for name in FAULTS}
    _signal.pthread_sigmask(_signal.SIG_BLOCK, set(_signal.valid_signals()) - numbers)


class _Wait:
    """Finds no module; tells when the first framework is imported."""

    def __init__(self, address: str) -> None:
        self.address = address

    def find_spec(self, name: str, *rest: Any) -> Any:
        if name not in FRAMEWORKS:
            return None
        try:
            at = sys.meta_path.index(self)
            del sys.meta_path[at]
            _start(self.address)
        except Exception:
            return None
        # Whoever goes through the list skips the one that is in our place now.
        behind = sys.meta_path[at] if at < len(sys.meta_path) else None
        return None if behind is None else behind.find_spec(name, *rest)


def _serve(address: str) -> None:
    """What the thread does."""
    try:
        _deaf()
        time.sleep(ASLEEP_S)
        if _process("_inheriting"):  # what it is becomes known when its main module has been imported, ...
            while _process("_inheriting"):
                time.sleep(ASLEEP_S)
            time.sleep(ASLEEP_S)  # ... and a moment later
        if not _process("daemon") and _is_ours(os.path.dirname(address)):
            _answer(address)
    except Exception:
        pass


def _process(what: str) -> bool:
    """Something that `multiprocessing` knows of this process; a worker of a DataLoader is a "daemon"."""
    module: Any = sys.modules.get("multiprocessing.process")
    return bool(module is not None and getattr(module.current_process(), what, False))


def _is_ours(folder: str) -> bool:
    """Whether nobody but us and root can have put anything into *folder*: others may have made it anew."""
    seen = os.lstat(folder)
    return seen.st_mode & 0o170022 == 0o040000 and seen.st_uid in (0, os.getuid())


class _Channel:
    """The connection to the recorder, and nothing else that has come to have its number."""

    def __init__(self, address: str) -> None:
        import _socket

        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._quietly = _socket.MSG_NOSIGNAL  # a recorder that has gone is no signal to the program
        self._at_once = _socket.MSG_DONTWAIT
        try:
            self._socket.connect(address)
            peer = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
            if int.from_bytes(peer[4:8], sys.byteorder) not in (0, os.getuid()):
                raise OSError("somebody else listens there")
        except OSError:
            self._socket.close()
            raise
        self._identity = self._seen()
        # A child that is forked has the socket but not this thread: nobody there would ever answer.
        os.register_at_fork(after_in_child=self.close)

    def _seen(self) -> tuple[int, int]:
        seen = os.fstat(self._socket.fileno())
        return seen.st_dev, seen.st_ino

    def _is_it(self) -> bool:
        """False once the program has closed all descriptors, as daemons do; ours may be its own then."""
        try:
            if self._socket.fileno() >= 0 and self._seen() == self._identity:
                return True
        except OSError:
            pass
        self._socket.detach()
        return False

    def receive(self, *, wait: bool = True) -> bytes | None:
        """What has come, empty at the end; without *wait* None where nothing has."""
        try:
            part: bytes = self._socket.recv(4096, 0 if wait else self._at_once) if self._is_it() else b""
        except BlockingIOError:
            return None
        except OSError:  # a recorder that goes with something unread resets the connection
            return b""
        return part if self._is_it() else b""

    def send(self, data: bytes) -> None:
        while data and self._is_it():
            data = data[self._socket.send(data, self._quietly) :]

    def close(self) -> None:
        if self._is_it():
            self._socket.close()


class _Talk:
    """Messages over a channel, a line of JSON each: an object with what is said as its only key."""

    def __init__(self, channel: _Channel) -> None:
        import json

        self._json = json
        self._channel = channel
        self._heard = b""
        self.over = False
        """The recorder has gone, or what it says cannot be understood."""

    def tell(self, **said: Any) -> None:
        self._channel.send(self._json.dumps(said).encode() + b"\n")

    def hear(self, *, wait: bool) -> dict[str, Any] | None:
        """The next message; None when it is over, and without *wait* where none has come."""
        while b"\n" not in self._heard:
            part = self._channel.receive(wait=wait)
            if part is None:
                return None
            self._heard += part
            if not part or len(self._heard) > LONGEST_REQUEST:
                self.over = True
                return None
        line, _, self._heard = self._heard.partition(b"\n")
        try:
            said: dict[str, Any] = dict(self._json.loads(line.decode()))
        except (TypeError, ValueError):
            self.over = True
            return None
        return said


def _answer(address: str) -> None:
    channel = _Channel(address)
    try:
        talk, pid = _Talk(channel), os.getpid()
        talk.tell(hello={"agent": AGENT, "pid": pid, "python": sys.version.split()[0]})
        request: Any = None
        while not talk.over and not request:
            request = (talk.hear(wait=True) or {}).get("look")
        if request:  # and there is no second one: from Python 3.12 on a fork beside a thread is warned of
            _look(request, talk, to=f"{os.path.dirname(address)}/trace-{pid}")
    finally:
        channel.close()


def _look(request: dict[str, Any], talk: _Talk, *, to: str) -> None:
    """Take one look, and say how it went."""
    look: Any = None
    try:
        cupti = _half("_perfzero_cupti")
        if _process("daemon"):
            said = {"refused": "it is a worker of another process"}
        elif not _is_torchs() and not request.get("may_stay"):
            said = {"refused": WITHOUT_TORCH}
        elif not _is_torchs():
            said = cupti.Look(request, talk, to=to).take()
        else:
            torch = _half("_perfzero_torch")
            refusal = torch.refusal() or cupti.refusal()
            if refusal:
                said = {"refused": refusal}
            else:
                look = torch.Look(request, talk, to=to, main=_MAIN, cupti=cupti)
                said = look.take()
    except Exception as error:
        said = {"refused": f"{type(error).__name__}: {error}"}
    try:
        talk.tell(**said)
    finally:
        if look is not None:
            look.put_back()


def _is_torchs() -> bool:
    """Whether it is PyTorch that uses the GPU: another framework may have been imported beside it."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return False
    used = getattr(getattr(torch, "cuda", None), "is_initialized", bool)
    return not any(name in sys.modules for name in FRAMEWORKS if name != "torch") or bool(used())


def _half(name: str) -> Any:
    """One of the two files that take looks; the program does not see it among its modules."""
    import importlib.util

    spec: Any = importlib.util.spec_from_file_location(name, f"{os.path.dirname(__file__)}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
