"""The agent in a program of its own: what it sees, and that the program does not see it."""

from __future__ import annotations

import _thread
import gc
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perfzero.record import look as look_module
from perfzero.record.look import Looks
from perfzero.record.remote import ENTER
from perfzero.values import Look

STAND_IN = Path(__file__).parent / "stand_in"

MODEL = """
import sys, time, threading
import torch
class Part(torch.nn.Module):
    def forward(self, x): return x + 1
class Model(torch.nn.Module):
    def __init__(self): self.one, self.two = Part(), Part()
    def forward(self, x): return self.two(self.one(x))
model, optimizer = Model(), torch.Optimizer()
def more():
    more.left -= 1
    time.sleep(0.005)
    return more.left > 0
more.left = 150
"""

TRAIN = """
x = 0
while more():
    for _ in range(2):
        x = model(x)
    optimizer.step()
print("x", x)
"""

INFER = """
x = 0
while more():
    x = model(x)
print("x", x)
"""

STATE = """
print(threading.active_count(), [p for p in sys.path if "perfzero" in p])
print([finder for finder in sys.meta_path if "Wait" in repr(finder)])
print(torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl, len(torch._hooks))
assert torch.cuda.CUDAGraph.replay is torch.REPLAY
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An agent that wakes up at once and takes a tenth of a second for inference."""
    source = tmp_path / "agent"
    source.mkdir()
    for name in (*look_module.FILES, ENTER):
        text = (look_module.AGENT / name).read_text()
        text = (
            text.replace("ASLEEP_S = 1.0", "ASLEEP_S = 0.05")
            .replace("NO_OPTIMIZER_S = 2.0", "NO_OPTIMIZER_S = 0.1")
            .replace("MEASURE_S = 0.3", "MEASURE_S = 0.05")
        )
        (source / name).write_text(text)
    monkeypatch.setattr(look_module, "AGENT", source)
    monkeypatch.setattr(look_module, "LEAST_S", 0.0)


def agent_with(**values: str) -> None:
    """The constants *values* of the look with PyTorch are others; of those that `soon` has left."""
    path = look_module.AGENT / "_perfzero_torch.py"
    text = path.read_text()
    for name, value in values.items():
        text, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
        assert found == 1
    path.write_text(text)


SAID: list[str] = []


@contextmanager
def looks(within_s: float = 20.0, *, may_stay: bool = False) -> Iterator[tuple[Looks, list[Look]]]:
    ended: list[Look] = []
    SAID.clear()
    made = Looks(tell=ended.append, say=SAID.append, may_stay=may_stay)
    made.within_s = within_s
    made.open(None)
    try:
        yield made, ended
    finally:
        made.close()


def environment(made: Looks | None, path: Path = STAND_IN) -> Mapping[str, str]:
    before = {**os.environ, "PYTHONPATH": str(path)}
    return before if made is None else {**before, **made.environment(before)}


def run(program: str, made: Looks | None, *, path: Path = STAND_IN, ask: bool = True) -> tuple[int, str, str]:
    """Run *program* to its end, asking for a look as soon as it waits; its exit code, output and errors."""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment(made, path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while made is not None and child.poll() is None and time.monotonic() < deadline:
        made.hear()
        if ask:
            made.ask({child.pid: ()})
        time.sleep(0.01)
    out, err = child.communicate(timeout=30)
    if made is not None:
        made.hear()
    return child.returncode, out, err


def test_three_steps_of_a_training_program_are_traced_and_it_sees_nothing_of_it() -> None:
    """Output, errors and exit code are those of a run without the agent; its modules are named."""
    program = MODEL + TRAIN + STATE
    with looks() as (made, ended):
        with_look = run(program + "sys.exit(7)", made)
        folder = made.environment({})["PYTHONPATH"]
        [trace] = Path(folder).glob("trace-*")

        assert trace.read_text() == '{"traceEvents": []}'
    assert with_look == run(program + "sys.exit(7)", None)
    assert with_look[0] == 7
    [look] = ended
    assert (look.reason, len(look.steps_ns), look.file) == ("", 4, f"look-{look.pid}.json.gz")
    assert look.start_ns < look.steps_ns[0] < look.steps_ns[-1] < look.end_ns
    assert 0 <= look.cost_s < 1


def test_each_step_and_each_call_of_a_module_has_a_range_and_all_are_closed() -> None:
    """A step holds two forward passes; the names say where in the model and where in the program."""
    show = "for name in torch.RANGES: print('range', name)\nprint('range', torch.TRACING)"
    with looks() as (made, _):
        _, out, _ = run(MODEL + TRAIN + show, made)
    ranges = [line.removeprefix("range ") for line in out.splitlines() if line.startswith("range ")]

    assert ranges.pop() == "['prepare', 'start', 'stop']"
    opened = [name for name in ranges if not name.startswith("/")]
    assert sorted(opened) == sorted(name[1:] for name in ranges if name.startswith("/"))
    call = ["perfzero.module||Model|", "perfzero.module|one|Part|", "perfzero.module|two|Part|"]
    assert [name.rpartition("|")[0] + "|" for name in opened[1:7]] == call * 2
    assert [name for name in opened if "step" in name] == [f"perfzero.step|{k}" for k in range(3)]


@pytest.mark.parametrize(("least_s", "fewest", "most"), [(0.1, 8, 25), (1e9, 40, 40)])
def test_of_short_steps_more_are_traced_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, least_s: float, fewest: int, most: int
) -> None:
    """Each takes 5 ms or a little more."""
    monkeypatch.setattr(look_module, "LEAST_S", least_s)
    with looks() as (made, ended):
        run(MODEL + TRAIN, made)

    assert fewest <= len(ended[0].steps_ns) - 1 <= most


def test_a_look_that_comes_in_the_midst_of_a_forward_pass_names_modules_from_the_whole() -> None:
    """The first module that it sees called is not the outermost one, though it seems to be."""
    midst = """
plain = torch.nn.Module.__call__
def forward(self, x):
    while more.left == 149 and torch.nn.Module.__call__ is plain: time.sleep(0.001)
    return self.two(self.one(x))
Model.forward = forward
"""
    show = "print(*sorted({name.rpartition('|')[0] for name in torch.RANGES if name.startswith('perf')}))"
    with looks() as (made, _):
        _, out, _ = run(MODEL + midst + TRAIN + show, made)

    named = "perfzero.module|one|Part perfzero.module|two|Part perfzero.module||Model"
    assert out.splitlines()[-1] == f"{named} perfzero.step"


class Slow:
    """Counters that need time to be had, and what was going on in the program when they were asked for."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.asked_s = 0.0

    def open(self, step_s: float, steps: int) -> None:
        self.did.append(f"open {steps}")
        self.step_s, self.asked_s = step_s, time.monotonic()

    @property
    def opened(self) -> bool:
        return time.monotonic() > self.asked_s + 0.2

    started = opened

    def start(self) -> None:
        self.did.append("start")
        self.asked_s = time.monotonic()

    def stop(self) -> None:
        self.did.append("stop")


def test_the_profiler_starts_when_the_counters_are_sampled_and_the_program_goes_on_meanwhile() -> None:
    counters = Slow()
    show = "print(torch.TRACING, more.left)"
    with looks() as (made, ended):
        env = environment(made)
        program = MODEL + "more.left = 400\n" + TRAIN + show
        child = subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True)
        while child.poll() is None:
            made.hear()
            made.ask({child.pid: ()}, counters)
            time.sleep(0.005)
        out, _ = child.communicate(timeout=30)

    assert out.splitlines()[-1] == "['prepare', 'start', 'stop'] 0"
    assert counters.did == ["open 3", "start", "stop"]
    assert 0.004 < counters.step_s < 0.1
    # Sampling took 0.2 s to begin, and the steps came after that.
    assert ended[0].steps_ns[0] - ended[0].start_ns > 0.4e9


def test_a_program_without_an_optimizer_steps_with_its_outermost_module() -> None:
    with looks() as (made, ended):
        code, out, err = run(MODEL + INFER + STATE, made)

    assert (code, err) == (0, "")
    assert out == "x 298\n1 []\n[]\nTrue 0\n"
    assert len(ended[0].steps_ns) == 4


def test_a_program_that_replays_a_graph_steps_with_it() -> None:
    """Its model is called once, to be captured; what is replayed has no modules."""
    replays = """
model(0)
graph = torch.cuda.CUDAGraph(lambda: None)
while more(): graph.replay()
print(*(name.rpartition("|")[0] for name in torch.RANGES if "replay" in name and "/" not in name[:1]))
"""
    with looks() as (made, ended):
        code, out, err = run(MODEL + replays + STATE, made)

    assert (code, err) == (0, "")
    assert out == " ".join(["perfzero.replay"] * 3) + "\n1 []\n[]\nTrue 0\n"
    assert len(ended[0].steps_ns) == 4


ON_A_GPU = """
import os
torch.cuda.is_initialized = lambda: True
torch.version.cuda = {cuda!r}
if {teardown!r}: os.environ["TEARDOWN_CUPTI"] = {teardown!r}
graph = torch.cuda.CUDAGraph(lambda: None)
while more():
    model(0)
    if {replays}: graph.replay()
    optimizer.step()
print(torch.TRACING, os.environ.get("TEARDOWN_CUPTI"))
time.sleep(0.4)
print(os.environ.get("TEARDOWN_CUPTI"))
"""


@pytest.mark.parametrize(
    ("cuda", "teardown", "replays"),
    [("13.0", "", True), ("12.6", "1", True), ("11.8", "", False)],
    ids=["graphs", "first-that-can", "old-without-graphs"],
)
def test_cupti_is_taken_out_of_a_program_with_a_gpu(cuda: str, teardown: str, *, replays: bool) -> None:
    """
    Else its launches would be slower for the rest of its life.

    Kineto asks the environment once more, and needs a call of CUDA; afterwards it is as it was.
    """
    agent_with(PUT_BACK_S="0.2")
    ends_soon = "more.left = 0 if 'stop' in torch.TRACING else more.left\n    optimizer.step()"
    program = ON_A_GPU.format(cuda=cuda, teardown=teardown, replays=replays)
    program = program.replace("optimizer.step()", ends_soon)
    with looks() as (made, ended):
        code, out, err = run(MODEL + program + "print(*torch.CALLS)" + STATE, made)

    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "['prepare', 'start', 'stop'] 1",
        teardown or "None",
        " ".join(["['prepare', 'start', 'stop']"] * 20),
    ]
    assert [look.reason for look in ended] == [""]


@pytest.mark.parametrize(
    ("cuda", "teardown", "replays", "why"),
    [
        (
            "12.4",
            "",
            True,
            "it replays CUDA graphs, and with CUDA 12.4 would stay slower; --agent looks all the same",
        ),
        (
            "None",
            "",
            True,
            "it replays CUDA graphs, and with CUDA None would stay slower; --agent looks all the same",
        ),
        ("13.0", "0", False, "with TEARDOWN_CUPTI=0 it would stay slower; --agent looks all the same"),
    ],
    ids=["graphs-of-an-old-cuda", "graphs-of-no-known-cuda", "told-to-stay"],
)
def test_a_program_out_of_which_cupti_could_not_be_taken_is_not_looked_into(
    cuda: str, teardown: str, why: str, *, replays: bool
) -> None:
    with looks() as (made, ended):
        program = MODEL + ON_A_GPU.format(cuda=cuda, teardown=teardown, replays=replays) + STATE
        code, out, err = run(program, made)

    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"[] {teardown or None}"
    assert [look.reason for look in ended] == [why]


@pytest.mark.parametrize(("cuda", "teardown"), [("12.4", ""), ("13.0", "0")], ids=["graphs", "told-to-stay"])
def test_a_program_in_which_cupti_may_stay_is_looked_into_and_that_is_told(cuda: str, teardown: str) -> None:
    agent_with(PUT_BACK_S="0.2")
    ends_soon = "more.left = 0 if 'stop' in torch.TRACING else more.left\n    optimizer.step()"
    program = ON_A_GPU.format(cuda=cuda, teardown=teardown, replays=True)
    with looks(may_stay=True) as (made, ended):
        code, out, err = run(MODEL + program.replace("optimizer.step()", ends_soon) + STATE, made)

    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == ["['prepare', 'start', 'stop'] 0", teardown or "None"]
    assert [look.reason for look in ended] == [""]
    assert "CUPTI could not be taken out" in " ".join(SAID)


CAPTURES = """
torch.cuda.is_initialized = lambda: True
graph = torch.cuda.CUDAGraph(lambda: None)
def capture():
    graph.{call}()
    import os
    print(torch.TRACING, os.environ.get("TEARDOWN_CUPTI"))
done = 0
while more():
    model(0)
    if not done and "{phase}" in torch.TRACING:
        done = 1
        {capture}
    graph.replay()
    optimizer.step()
import os
print(torch.TRACING, os.environ.get("TEARDOWN_CUPTI"))
assert torch.cuda.CUDAGraph.capture_begin is torch.CAPTURE_BEGIN
assert torch.cuda.CUDAGraph.capture_end is torch.CAPTURE_END
"""


@pytest.mark.parametrize(
    ("phase", "teardown"),
    [("prepare", "0"), ("start", "0"), ("stop", "1")],
    ids=["ready", "traced", "afterwards"],
)
def test_cupti_is_left_in_where_a_graphs_capture_ended_while_it_was_there(phase: str, teardown: str) -> None:
    agent_with(PUT_BACK_S="9.0")
    program = CAPTURES.format(phase=phase, call="capture_end", capture="capture()")
    with looks() as (made, ended):
        code, out, err = run(MODEL + program + STATE, made)

    assert (code, err) == (0, "")
    assert out.splitlines()[1] == f"['prepare', 'start', 'stop'] {teardown}"
    assert [look.reason for look in ended] == [""]
    assert ("CUPTI could not be taken out" in " ".join(SAID)) is (teardown == "0")


@pytest.mark.parametrize(
    "capture",
    ["capture()", "t = threading.Thread(target=capture); t.start(); t.join()"],
    ids=["main", "thread"],
)
@pytest.mark.parametrize("phase", ["prepare", "start"], ids=["ready", "traced"])
def test_a_look_makes_way_for_the_capture_of_a_graph(phase: str, capture: str) -> None:
    """One inside a profile ended the program with a segmentation fault. CUPTI may be in the graph now."""
    agent_with(PUT_BACK_S="9.0")
    program = CAPTURES.format(phase=phase, call="capture_begin", capture=capture)
    with looks() as (made, ended):
        code, out, err = run(MODEL + program + STATE, made)

    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == ["['prepare', 'start', 'stop', 'capture'] 0"] * 2
    assert [look.reason for look in ended] == ["it captures a CUDA graph"]
    assert "CUPTI could not be taken out" in " ".join(SAID)


def test_a_look_that_has_not_begun_waits_for_the_end_of_a_capture() -> None:
    """Modules are called in it, and steps seem to end."""
    waits = """
import os
torch.cuda.is_initialized = lambda: True
graph = torch.cuda.CUDAGraph(lambda: None)
while torch.cuda.CUDAGraph.capture_begin is torch.CAPTURE_BEGIN: time.sleep(0.001)
graph.capture_begin()
for _ in range(60): model(0); optimizer.step(); time.sleep(0.005)
print(torch.TRACING)
graph.capture_end()
torch.cuda.is_current_stream_capturing = lambda: True  # begun before we came
for _ in range(20): model(0); optimizer.step(); time.sleep(0.005)
print(torch.TRACING)
torch.cuda.is_current_stream_capturing = lambda: False
while "stop" not in torch.TRACING: model(0); optimizer.step(); time.sleep(0.005)
time.sleep(0.1)
print(torch.TRACING)
"""
    with looks() as (made, ended):
        code, out, err = run(MODEL + waits + STATE, made)

    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "['capture']",
        "['capture']",
        "['capture', 'prepare', 'start', 'stop']",
    ]
    assert [look.reason for look in ended] == [""]
    assert "CUPTI could not be taken out" not in " ".join(SAID)


def test_a_child_that_is_forked_before_the_variable_is_put_back_has_it_as_it_was() -> None:
    forks = """
import os, warnings
warnings.simplefilter("ignore")
torch.cuda.is_initialized = lambda: True
while "stop" not in torch.TRACING: model(0); optimizer.step(); time.sleep(0.005)
time.sleep(0.1)
print(os.environ.get("TEARDOWN_CUPTI"), flush=True)
child = os.fork()
print(os.environ.get("TEARDOWN_CUPTI"), flush=True)
if child: os.waitpid(child, 0)
"""
    agent_with(PUT_BACK_S="9.0")
    with looks() as (made, _):
        code, out, err = run(MODEL + forks, made)

    assert (code, err) == (0, "")
    assert sorted(out.split()) == ["1", "1", "None"]


def test_a_variable_that_the_program_has_set_meanwhile_stays() -> None:
    sets = """
import os
torch.cuda.is_initialized = lambda: True
while "stop" not in torch.TRACING: model(0); optimizer.step(); time.sleep(0.005)
os.environ["TEARDOWN_CUPTI"] = "2"
time.sleep(0.4)
print(os.environ["TEARDOWN_CUPTI"])
"""
    agent_with(PUT_BACK_S="0.1")
    with looks() as (made, _):
        assert run(MODEL + sets, made) == (0, "2\n", "")


def test_a_program_that_has_jax_in_it_is_not_looked_into() -> None:
    """Its graphs may be changed while CUPTI is there."""
    with looks() as (made, ended):
        program = (
            MODEL + "sys.modules['jax'] = sys\n" + ON_A_GPU.format(cuda="13.0", teardown="", replays=False)
        )
        code, out, _ = run(program, made)

    assert code == 0
    assert out.splitlines()[0] == "[] None"
    assert [look.reason for look in ended] == [
        "JAX makes CUDA graphs in it, and it would stay slower; --agent looks all the same"
    ]


def test_a_program_without_a_gpu_keeps_its_environment() -> None:
    with looks() as (made, ended):
        program = MODEL + TRAIN + "import os; print(os.environ.get('TEARDOWN_CUPTI'))"
        _, out, _ = run(program, made)

    assert out.splitlines()[-1] == "None"
    assert [look.reason for look in ended] == [""]


@pytest.mark.parametrize("phase", ["prepare", "start", "stop"])
def test_a_profiler_that_fails_ends_the_look_and_not_the_program(phase: str) -> None:
    with looks() as (made, ended):
        code, out, err = run(MODEL + f"torch.FAIL = {phase!r}\n" + TRAIN + STATE, made)

    assert (code, err) == (0, "")
    assert out == "x 596\n1 []\n[]\nTrue 0\n"
    assert [look.reason for look in ended] == [f"RuntimeError: no {phase} today"]
    assert ended[0].file == ""


def test_a_program_that_profiles_itself_is_not_looked_into() -> None:
    with looks() as (made, ended):
        run(MODEL + "torch.autograd._profiler_enabled = lambda: True\n" + TRAIN, made)

    assert [look.reason for look in ended] == ["the program profiles itself"]


def test_a_look_makes_way_for_the_programs_own_profiler() -> None:
    """Two at once end the process with a segmentation fault."""
    own = """
x = 0
while more():
    x = model(x)
    optimizer.step()
    if torch.TRACING == ["prepare", "start"]:
        profile = sys.modules["torch.autograd.profiler"].profile
        own = profile(use_device=None, record_shapes=False, use_kineto=True)
        own._prepare_trace()
print(torch.TRACING)
"""
    with looks() as (made, ended):
        code, out, err = run(MODEL + own + STATE, made)

    assert (code, err) == (0, "")
    assert out == "['prepare', 'start', 'stop', 'prepare']\n1 []\n[]\nTrue 0\n"
    assert [look.reason for look in ended] == ["the program profiles itself"]


THREAD = """
begun = threading.Event()
def other():
    begun.wait()
    {work}
thread = threading.Thread(target=other)
thread.start()
x = 0
while more():
    x = model(x)
    optimizer.step()
    if torch.TRACING == {when}:
        begun.set()
        while thread.is_alive(): time.sleep(0.001)
    if not thread.is_alive(): break
print(torch.TRACING)
"""

PROFILES = "torch.autograd.profiler.profile(use_device=0, record_shapes=0, use_kineto=1)._prepare_trace()"


@pytest.mark.parametrize("when", [["prepare"], ["prepare", "start"]])
def test_a_look_makes_way_for_a_profiler_in_another_thread(when: list[str]) -> None:
    """Only the main thread can stop ours, and it does so in the midst of whatever it is doing."""
    with looks() as (made, ended):
        code, out, err = run(MODEL + THREAD.format(work=PROFILES, when=when) + STATE, made)

    assert (code, err) == (0, "")
    assert out == "['prepare', 'start', 'stop', 'prepare']\n1 []\n[]\nTrue 0\n"
    assert [look.reason for look in ended] == ["the program profiles itself"]


def test_a_thread_that_profiles_wakes_the_main_one_that_waits_for_it() -> None:
    """Who waits for a lock comes to no other statement before that thread has ended."""
    waits = THREAD.format(work="time.sleep(0.2); " + PROFILES, when=["prepare", "start"])
    waits = waits.replace("while thread.is_alive(): time.sleep(0.001)", "thread.join()")
    with looks() as (made, ended):
        code, out, err = run(MODEL + waits + STATE, made)

    assert (code, err) == (0, "")
    assert out == "['prepare', 'start', 'stop', 'prepare']\n1 []\n[]\nTrue 0\n"
    assert [look.reason for look in ended] == ["the program profiles itself"]


def test_a_thread_that_profiles_fails_where_the_main_one_cannot_be_woken() -> None:
    """With an exception, where PyTorch would die; the main thread is in one call, and not for a lock."""
    agent_with(WAY_S="0.3")
    caught = f"""
    try: {PROFILES}
    except RuntimeError as error: print(error)
"""
    sleeps = THREAD.format(work=caught.strip(), when=["prepare", "start"])
    sleeps = sleeps.replace("while thread.is_alive(): time.sleep(0.001)", "time.sleep(0.8)")
    with looks() as (made, ended):
        code, out, err = run(MODEL + sleeps + "time.sleep(0.1)", made)

    assert (code, err) == (0, "")
    told = "perfzero profiles the main thread, which could not be told to stop it"
    assert out == f"{told}\n['prepare', 'start', 'stop']\n"
    assert [look.reason for look in ended] == ["the program profiles itself"]


def test_a_look_makes_way_for_ranges_that_the_program_emits() -> None:
    """They raise where a profiler is at work."""
    own = """
while more():
    model(0)
    optimizer.step()
    if torch.TRACING == ["prepare", "start"]: torch.autograd.profiler.emit_nvtx().__enter__()
print(torch.TRACING)
"""
    with looks() as (made, ended):
        code, out, err = run(MODEL + own + STATE, made)

    assert (code, err) == (0, "")
    assert out == "['prepare', 'start', 'stop', 'nvtx']\n1 []\n[]\nTrue 0\n"
    assert [look.reason for look in ended] == ["the program profiles itself"]


def test_what_goes_wrong_in_another_thread_stops_the_profiler_in_the_main_one() -> None:
    deep = "torch.Deep(60)(0)"
    nest = DEEP.replace("Nest", "Deep").replace("model = Deep(60)", "torch.Deep = Deep")
    stopped = """
where = []
plain = torch.autograd.profiler.profile.__exit__
def stop(self, *rest): where.append(threading.current_thread() is threading.main_thread()); plain(self, *rest)
torch.autograd.profiler.profile.__exit__ = stop
"""
    program = MODEL + nest + stopped + THREAD.format(work=deep, when=["prepare", "start"])
    with looks() as (made, ended):
        code, out, err = run(program + "time.sleep(0.1); print(where)" + STATE, made)

    assert (code, err) == (0, "")
    assert out.startswith("['prepare', 'start', 'stop']\n[True]\n1 []\n")
    assert [look.reason for look in ended] == ["its modules are nested too deeply"]


LEAVES = """
while torch.TRACING != {when}: model(0); optimizer.step(); time.sleep(0.005)
end = time.monotonic() + 20
{work}
while torch.TRACING[-1] != "stop" and time.monotonic() < end: pass
print(torch.TRACING)
"""


@pytest.mark.parametrize(
    ("values", "when", "reason"),
    [
        ({"TRACE_S": "0.2"}, ["prepare", "start"], "its traced steps took too long"),
        ({"GO_WITHIN_S": "0.2"}, ["prepare"], "no step began when all was ready"),
    ],
)
def test_a_program_that_steps_no_more_is_not_profiled_for_long(
    values: dict[str, str], when: list[str], reason: str
) -> None:
    """It calls no module either: the profiler is stopped between two statements, whatever they are."""
    agent_with(**values)
    with looks() as (made, ended):
        code, out, err = run(MODEL + LEAVES.format(when=when, work="") + "time.sleep(0.1)" + STATE, made)

    assert (code, err) == (0, "")
    assert out == "['prepare', 'start', 'stop']\n1 []\n[]\nTrue 0\n"
    assert [look.reason for look in ended] == [reason]


def test_a_profiler_that_is_ready_does_not_wait_for_the_recorder_for_long() -> None:
    agent_with(GO_WITHIN_S="0.1")
    counters = Slow()
    counters.start = lambda: setattr(counters, "asked_s", time.monotonic() + 99)  # type: ignore[method-assign]
    with looks() as (made, ended):
        program = MODEL + "more.left = 300\n" + TRAIN + "print(torch.TRACING)" + STATE
        env = environment(made)
        child = subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True)
        while child.poll() is None:
            made.hear()
            made.ask({child.pid: ()}, counters)
            time.sleep(0.005)
        out, _ = child.communicate(timeout=30)

    assert out == "x 1196\n['prepare', 'start', 'stop']\n1 []\n[]\nTrue 0\n"
    assert [look.reason for look in ended] == ["the recorder was not ready in time"]


GROWS = """
held = []
plain = optimizer.step
def step():
    if torch.TRACING == ["prepare", "start"]: held.append(b"x" * (10 << 20))
    plain()
optimizer.step = step
"""


@pytest.mark.parametrize(("most", "steps"), [("64 << 20", 3), ("25 << 20", 2), ("18 << 20", 1)])
def test_fewer_steps_are_traced_where_they_take_much_memory(most: str, steps: int) -> None:
    """10 MiB each; a step more must not be more than allowed."""
    agent_with(MOST_GROWN=most)
    with looks() as (made, ended):
        code, _, err = run(MODEL + GROWS + TRAIN, made)

    assert (code, err) == (0, "")
    assert [(look.reason, len(look.steps_ns) - 1) for look in ended] == [("", steps)]


def test_a_step_that_takes_too_much_memory_is_not_traced_to_its_end() -> None:
    agent_with(MOST_GROWN="8 << 20")
    work = 'held = b"x" * (10 << 20)'
    with looks() as (made, ended):
        code, out, err = run(
            MODEL + LEAVES.format(when=["prepare", "start"], work=work) + "time.sleep(0.1)" + STATE, made
        )

    assert (code, err) == (0, "")
    assert out == "['prepare', 'start', 'stop']\n1 []\n[]\nTrue 0\n"
    assert [look.reason for look in ended] == ["its steps are too many operators to be traced"]


@pytest.mark.parametrize(
    ("when", "traced"),
    [
        ("prepare", ["prepare", "prepare", "start", "stop"]),
        ("start", ["prepare", "start", "stop"]),
        ("stop", ["prepare", "start", "stop"]),
    ],
)
def test_a_ctrl_c_is_the_programs_and_ends_the_look(when: str, traced: list[str]) -> None:
    """Right after the profiler was called: one that has begun is stopped, one that was stopped is left."""
    handles = f"""
torch.CTRL_C = {when!r}
try:
    while more(): model(0); optimizer.step()
except KeyboardInterrupt:
    print("caught")
time.sleep(0.1)
print(torch.TRACING)
"""
    with looks() as (made, ended):
        code, out, err = run(MODEL + handles + STATE, made)

    assert (code, err) == (0, "")
    assert out == f"caught\n{traced}\n1 []\n[]\nTrue 0\n"
    assert [look.reason.rstrip(": ") for look in ended] == ["KeyboardInterrupt"]


def test_a_ctrl_c_that_comes_when_a_look_is_ended_is_the_programs() -> None:
    """Between two of its statements, where the profiler is stopped because the steps take too long."""
    agent_with(TRACE_S="0.2")
    leaves = LEAVES.format(when=["prepare", "start"], work="").replace("\n", "\n    ")
    program = f"""
torch.CTRL_C = "stop"
def leave(): {leaves}
try: leave()  # Python 3.13.0 does not catch what is raised at the end of a loop in the same function
except KeyboardInterrupt: print("caught", torch.TRACING)
time.sleep(0.1)
"""
    with looks() as (made, _):
        code, out, err = run(MODEL + program + STATE, made)

    assert (code, err) == (0, "")
    assert out == "caught ['prepare', 'start', 'stop']\n1 []\n[]\nTrue 0\n"


def test_a_recorder_that_goes_while_the_profiler_stops_leaves_nothing_in_the_program(tmp_path: Path) -> None:
    slow = f"""
plain = torch.autograd.profiler.profile.__exit__
def stop(self, *rest):
    open({str(tmp_path / "stopping")!r}, "w")
    time.sleep(0.5)
    plain(self, *rest)
torch.autograd.profiler.profile.__exit__ = stop
"""
    program = MODEL + slow + TRAIN + "time.sleep(0.2)" + STATE
    with looks() as (made, _):
        env = environment(made)
        child = subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 20
        while not (tmp_path / "stopping").exists() and time.monotonic() < deadline:
            made.hear()
            made.ask({child.pid: ()})
            time.sleep(0.005)
    out, _ = child.communicate(timeout=30)

    assert (child.returncode, out) == (0, "x 596\n1 []\n[]\nTrue 0\n")


def test_steps_in_another_thread_than_the_main_one_are_not_looked_into() -> None:
    thread = "def steps():\n" + TRAIN.replace("\n", "\n    ").replace("x = 0", "global x; x = 0", 1)
    with looks() as (made, ended):
        code, out, err = run(
            MODEL + thread + "\nrun = threading.Thread(target=steps); run.start(); run.join()", made
        )

    assert (code, out, err) == (0, "x 596\n", "")
    assert [look.reason for look in ended] == ["its steps are not in the main thread"]


def test_what_writes_the_program_down_finds_no_range_of_ours() -> None:
    with looks() as (made, ended):
        _, out, _ = run(
            MODEL + "torch._C._get_tracing_state = lambda: 1\n" + TRAIN + "print(torch.RANGES)", made
        )

    assert "module" not in out
    assert len(ended[0].steps_ns) == 4


def test_an_exception_of_the_programs_own_reaches_it_through_us() -> None:
    """A handler of a signal that comes while the agent is at work; its watchdog must bite."""
    alarm = """
class Late(Exception): pass
def late(*_): raise Late("watchdog")
plain = torch.record_function.__enter__
def enter(self):
    late()
torch.record_function.__enter__ = enter
try:
    while more(): model(0); optimizer.step()
except Late as error:
    print(error)
time.sleep(0.3)
torch.record_function.__enter__ = plain
"""
    with looks() as (made, ended):
        code, out, _ = run(MODEL + alarm, made)

    assert (code, out) == (0, "watchdog\n")
    assert ended[0].reason == "Late: watchdog"


def test_modules_are_named_without_a_call_of_the_programs() -> None:
    own = "def named_modules(self): raise KeyboardInterrupt\nModel.named_modules = named_modules\n"
    with looks() as (made, ended):
        code, _, err = run(MODEL + own + TRAIN, made)

    assert (code, err) == (0, "")
    assert ended[0].reason == ""


DEEP = """
class Nest(torch.nn.Module):
    def __init__(self, depth): self.inner = Nest(depth - 1) if depth else None
    def forward(self, x): return self.inner(x) if self.inner else x
model = Nest(60)
"""


def test_modules_in_too_many_modules_are_not_looked_into() -> None:
    with looks() as (made, ended):
        code, out, err = run(MODEL + DEEP + TRAIN + STATE, made)

    assert (code, out, err) == (0, "x 0\n1 []\n[]\nTrue 0\n", "")
    assert [look.reason for look in ended] == ["its modules are nested too deeply"]


def test_descriptors_that_the_program_has_closed_are_not_touched_again() -> None:
    """A daemon closes all it has; then its own files get the numbers, and only then the recorder ends."""
    closes = """
import os
sys.stdin.readline()
os.closerange(3, 100)
files = [open("/proc/self/status") for _ in range(20)]
print("closed", flush=True)
sys.stdin.readline()
print(sum(len(file.read()) > 0 for file in files))
"""
    with looks() as (made, _):
        child = subprocess.Popen(
            [sys.executable, "-c", MODEL + closes], env=environment(made), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        deadline = time.monotonic() + 20
        while not made.agents and time.monotonic() < deadline:
            made.hear()
            time.sleep(0.005)
        print(file=child.stdin, flush=True)
        assert child.stdout.readline() == "closed\n"
    time.sleep(0.3)  # the agent hears that the recorder has gone
    out, err = child.communicate("\n", timeout=30)

    assert (child.returncode, out, err) == (0, "20\n", "")


def test_a_recorder_that_ends_during_a_look_is_no_signal_to_the_program() -> None:
    quiet = "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
    program = quiet + MODEL + "more.left = 500\n" + TRAIN + STATE  # time to notice it
    with looks() as (made, ended):
        env = environment(made)
        child = subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 20
        while not made.asked and time.monotonic() < deadline:
            made.hear()
            made.ask({child.pid: ()})
            time.sleep(0.005)
    out, _ = child.communicate(timeout=30)

    assert ended == []
    assert (child.returncode, out) == (0, "x 1996\n1 []\n[]\nTrue 0\n")


def test_nobody_else_is_answered_in_a_folder_that_others_may_write(tmp_path: Path) -> None:
    """A program that outlives its recorder keeps the address; somebody may have made the folder anew."""
    with looks() as (made, _):
        folder = Path(made.environment({})["PYTHONPATH"])
        folder.chmod(0o777)
        code, out, err = run(MODEL + TRAIN, made)

        assert (code, out, err) == (0, "x 596\n", "")
        assert not made.agents


def test_the_finder_behind_ours_is_asked_for_the_framework_as_well() -> None:
    finder = """
import sys
class Seen:
    def find_spec(self, name, *_): print("asked for", name) if name == "torch" else None
sys.meta_path.insert(1, Seen())
import torch
print(len([f for f in sys.meta_path if "Wait" in repr(f)]))
"""
    with looks() as (made, _):
        _, out, err = run(finder, made)

    assert (out, err) == ("asked for torch\n0\n", "")


def test_a_program_without_steps_is_left_after_a_while_as_it_was() -> None:
    with looks(within_s=0.3) as (made, ended):
        code, out, _ = run(MODEL + "while more(): pass\n" + STATE, made)

    assert (code, out) == (0, "1 []\n[]\nTrue 0\n")
    assert [look.reason for look in ended] == ["no step began and ended in 0 s"]


def test_a_profiler_is_stopped_when_its_steps_take_too_long() -> None:
    """By the thread that started it, when it calls a module again."""
    slow = """
x = 0
while more():
    x = model(x)
    optimizer.step()
    if torch.TRACING == ["prepare"]:
        time.sleep(0.5)
"""
    with looks(within_s=0.2) as (made, ended):
        code, out, err = run(MODEL + slow + STATE + "print(torch.TRACING)", made)

    assert (code, err) == (0, "")
    assert out == "1 []\n[]\nTrue 0\n['prepare', 'start', 'stop']\n"
    assert [look.reason for look in ended] == ["no step began and ended in 0 s"]


FORKS = """
import os, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside our thread
x = 0
while more():
    x = model(x)
    optimizer.step()
    if torch.TRACING == {when}:
        child = os.fork()
        if child == 0:
            for _ in range(9): optimizer.step(); model(x)
            whole = torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl
            print(torch.TRACING, torch.autograd._profiler_enabled(), whole, flush=True)
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        break
while more():
    x = model(x)
    optimizer.step()
print(torch.TRACING)
"""


@pytest.mark.parametrize("when", [["prepare"], ["prepare", "start"]])
def test_a_look_ends_before_the_traced_thread_forks(when: list[str]) -> None:
    """Its child would be traced as well, and for ever; it steps, and ends as any program does."""
    with looks() as (made, ended):
        code, out, err = run(MODEL + FORKS.format(when=when), made)

    assert (code, err) == (0, "")
    whole = "['prepare', 'start', 'stop']"
    assert out == f"{whole} False True\n3\n{whole}\n"
    assert [look.reason for look in ended] == ["it forks"]


def test_a_child_that_is_forked_before_the_profiler_is_touched_has_no_part_in_it() -> None:
    """It steps as well; the look goes on in its parent."""
    early = "while torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl: time.sleep(0.001)\n"
    with looks() as (made, ended):
        code, out, err = run(MODEL + early + FORKS.format(when=[]), made)

    assert (code, err) == (0, "")
    assert out == "[] False True\n3\n['prepare', 'start', 'stop']\n"
    assert [len(look.steps_ns) for look in ended] == [4]


def test_a_program_that_ends_while_it_is_traced_stops_the_profiler_first() -> None:
    """Or it would die of a segmentation fault; what it registered itself comes later, as without us."""
    ends = """
import atexit
atexit.register(lambda: print(torch.TRACING))
while True:
    model(0)
    optimizer.step()
    if torch.TRACING == ["prepare", "start"]: sys.exit(5)
    time.sleep(0.005)
"""
    with looks() as (made, ended):
        code, out, err = run(MODEL + ends, made)

    assert (code, out, err) == (5, "['prepare', 'start', 'stop']\n", "")
    assert [look.reason for look in ended] == ["it ended before its steps had"]


def test_a_program_that_ends_meanwhile_is_told_of() -> None:
    with looks() as (made, ended):
        run(MODEL + "more.left = 60\nwhile more(): pass\n", made)

    assert [look.reason for look in ended] == ["it ended before its steps had"]


def test_who_has_wrapped_the_call_meanwhile_keeps_it() -> None:
    """The agent's own is under it then, and does nothing any more."""
    wrap = """
calls = []
while torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl:
    x = model(0); optimizer.step(); more()
theirs = torch.nn.Module.__call__
def __call__(self, *args, **kwargs):
    calls.append(1)
    return theirs(self, *args, **kwargs)
torch.nn.Module.__call__ = __call__
"""
    with looks() as (made, ended):
        _, out, err = run(
            MODEL + wrap + TRAIN + "print(torch.nn.Module.__call__ is __call__, len(calls) > 100)", made
        )

    assert err == ""
    assert out.endswith("True True\n")
    assert len(ended[0].steps_ns) == 4


def test_a_program_without_a_framework_does_not_come_to_the_recorder() -> None:
    with looks() as (made, ended):
        code, out, err = run("import time, threading; time.sleep(0.4); print(threading.active_count())", made)

    assert (code, out, err) == (0, "1\n", "")
    assert ended == []


WORKER = """
import multiprocessing, os
def work():
    import torch
    time.sleep(0.5)
if __name__ == "__main__":
    worker = multiprocessing.get_context({how!r}).Process(target=work, daemon=True)
    worker.start()
    print(worker.pid, flush=True)
    worker.join()
"""


CUPY = """
import sys, time, cupy
time.sleep(0.5)
print([m for m in sys.modules if "perfzero" in m], [f for f in sys.meta_path if "Wait" in repr(f)])
"""

WATCHED = "another tool watches it (CUDA_INJECTION64_PATH is set)"
"""So CUPTI is asked, and never touched, on whichever machine."""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, with a CuPy, in which programs find no other; a tool is said to watch them."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "cupy.py").touch()
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/tool.so")
    return tmp_path / "packages"


@pytest.mark.parametrize(
    ("asked", "why"),
    [(True, WATCHED), (False, "it uses its GPU without PyTorch; --agent looks all the same")],
    ids=["asked by name", "else"],
)
def test_a_program_with_cupy_alone_is_looked_into_by_cupti_if_that_is_asked_by_name(
    packages: Path, why: str, *, asked: bool
) -> None:
    with looks(may_stay=asked) as (made, ended):
        with_look = run(CUPY, made, path=packages)

    assert with_look == (0, "['_perfzero_agent'] []\n", "")
    assert [look.reason for look in ended] == [why]


def test_a_program_with_pytorch_that_another_tool_watches_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CUPTI is taken out of the process at the end of a look: out of that tool's hands as well."""
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/tool.so")
    with looks() as (made, ended):
        with_look = run(MODEL + TRAIN + STATE, made)

    assert with_look == (0, "x 596\n1 []\n[]\nTrue 0\n", "")
    assert [look.reason for look in ended] == [WATCHED]


@pytest.mark.parametrize("torchs", [True, False])
def test_of_two_frameworks_the_one_that_uses_the_gpu_is_asked(
    packages: Path, monkeypatch: pytest.MonkeyPatch, *, torchs: bool
) -> None:
    """The other one looks for CUDA, of which there is none in this program."""
    monkeypatch.delenv("CUDA_INJECTION64_PATH")
    program = MODEL + f"import cupy\ntorch.cuda.is_initialized = lambda: {torchs}\n" + TRAIN
    (packages / "torch").symlink_to(STAND_IN / "torch")
    with looks(may_stay=True) as (made, ended):
        run(program, made, path=packages)

    none = "no libcupti is found: pip install nvidia-cuda-cupti"
    assert [look.reason for look in ended] == ["" if torchs else none]


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_worker_of_a_loader_has_no_agent(tmp_path: Path, how: str) -> None:
    """
    Nobody comes in its name, nor twice in its parent's.

    What a spawned process is becomes known when its main module has been imported, which takes a while.
    """
    script = tmp_path / "program.py"
    script.write_text("import time, torch\ntime.sleep(0.4)\n" + WORKER.format(how=how))
    came: set[int] = set()
    with looks() as (made, ended):
        child = subprocess.Popen(
            [sys.executable, script], env=environment(made), stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        worker = int(child.stdout.readline())
        while child.poll() is None:
            made.hear()
            came |= {agent.pid for agent in made.agents}
            time.sleep(0.01)
        child.stdout.close()

        assert came == {child.pid}
        assert worker != child.pid
    assert ended == []


def test_the_programs_own_sitecustomize_is_read_as_before(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('site')\nVALUE = 3\n")
    program = "import sitecustomize; print(sitecustomize.VALUE, sitecustomize.__file__)"
    with looks() as (made, _):
        assert run(program, made, path=tmp_path) == run(program, None, path=tmp_path)


def test_a_sitecustomize_that_fails_fails_in_the_same_words(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    with looks() as (made, _):
        code, out, err = run("print('on')", made, path=tmp_path)

    assert (code, out) == (0, "on\n")
    assert err.splitlines()[-1] == run("print('on')", None, path=tmp_path)[2].splitlines()[-1]
    assert "no_such_module" in err


def test_signals_that_the_program_waits_for_come_to_it() -> None:
    """The kernel gives them to any thread that does not block them, and then the program would end."""
    waits = """
import os, signal
time.sleep(0.2)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
for task in sorted(os.listdir("/proc/self/task"))[1:]:
    status = open(f"/proc/self/task/{task}/status").read().split()
    taken = int(status[status.index("SigBlk:") + 1], 16) ^ (1 << 64) - 1
    print(*[n + 1 for n in range(64) if taken >> n & 1])
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigtimedwait({signal.SIGUSR1}, 5).si_signo)
"""
    with looks() as (made, _):
        code, out, err = run(MODEL + waits, made, ask=False)

    # What a fault sends, KILL and STOP, and the two that glibc keeps to itself.
    assert (code, out, err) == (0, "4 5 6 7 8 9 11 19 31 32 33\n10\n", "")


def test_our_thread_has_room_however_small_the_programs_own_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """__cxa_demangle with a name of 405 characters ended a thread of 64 KB, and the program with it."""
    made: Any = types.ModuleType("_perfzero_agent")
    exec((look_module.AGENT / "_perfzero_agent.py").read_text(), made.__dict__)
    sizes: list[int] = []
    monkeypatch.setattr(_thread, "start_new_thread", lambda *_: sizes.append(threading.stack_size()))
    monkeypatch.setitem(sys.modules, "cupy", made)
    before = threading.stack_size(65536)
    try:
        made.begin("/nowhere/agent")
        enter: dict[str, Any] = {}
        exec((look_module.AGENT / ENTER).read_text(), enter)
        enter["_enter"]("/nowhere", "/nowhere")
        assert threading.stack_size() == 65536
    finally:
        threading.stack_size(before)

    assert sizes == [8 << 20, 1 << 20]


def test_our_thread_ends_with_its_look() -> None:
    """From Python 3.12 on a program that forks beside it is warned."""
    with looks() as (made, ended):
        _, out, _ = run(
            MODEL + TRAIN + "time.sleep(0.3); import os; print(os.listdir('/proc/self/task'))", made
        )

    assert [look.reason for look in ended] == [""]
    assert out.splitlines()[-1].count(",") == 0


def test_whoever_has_warnings_for_errors_is_entered_without_one() -> None:
    with looks() as (made, _):
        folder = made.environment({})["PYTHONPATH"]
        program = f"""
import pathlib, sys, time
exec(compile(pathlib.Path({str(look_module.AGENT / ENTER)!r}).read_bytes(), "enter", "exec"))
_enter({str(look_module.AGENT)!r}, {folder!r})
sys.path.insert(0, {str(STAND_IN)!r})
time.sleep(0.3)
import torch
time.sleep(0.5)
print(list(sys.modules["_perfzero_agent"]._half("_perfzero_cupti").mapped("libc.so")) != [])
"""
        child = subprocess.Popen(
            [sys.executable, "-X", "warn_default_encoding", "-W", "error", "-c", program],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        came: set[int] = set()
        while child.poll() is None:
            made.hear()
            came |= {agent.pid for agent in made.agents}
            time.sleep(0.01)
        out, err = child.communicate(timeout=30)

    assert (child.returncode, out, err) == (0, "True\n", "")
    assert came == {child.pid}


def test_a_recorder_that_is_gone_is_no_trouble() -> None:
    with looks() as (made, _):
        env = environment(made)
    program = MODEL + "more.left = 50\n" + TRAIN + "print(threading.active_count())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "x 196\n1\n")


COLLECTS = """
import gc
plain = Model.forward
def forward(self, x):
    gc.collect()
    return plain(self, x)
Model.forward = forward
"""


def test_full_collections_of_garbage_are_seen_without_a_trace_in_the_program() -> None:
    agent_with(HELD_S="0.0")
    with looks() as (made, ended):
        _, out, _ = run(MODEL + COLLECTS + TRAIN + "print('left', gc.callbacks)", made)

    [look] = ended
    assert look.collections
    assert all(look.start_ns < one.end_ns < look.end_ns for one in look.collections)
    assert 0 < sum(one.length_s for one in look.collections) <= look.watched_s
    assert "left []" in out


def test_a_program_that_collects_nothing_or_for_no_time_has_no_collections() -> None:
    agent_with(HELD_S="0.0")
    with looks() as (made, ended):
        run("import gc\ngc.disable()\n" + MODEL + TRAIN, made)
    agent_with(HELD_S="3600.0")
    with looks() as (made, more):
        run(MODEL + COLLECTS + TRAIN, made)

    assert [look.collections for look in (*ended, *more)] == [(), ()]
    assert [look.collects_itself for look in (*ended, *more)] == [False, True]
    assert all(look.watched_s > 0 for look in (*ended, *more))


def test_a_collection_takes_as_long_as_the_gil_was_away_when_nothing_of_ours_held_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = importlib.util.spec_from_file_location("watched", look_module.AGENT / "_perfzero_torch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    now, full = [100.0], [7]
    monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: now[0], time_ns=time.time_ns))
    monkeypatch.setattr(gc, "get_stats", lambda: [{"collections": 99}, {"collections": full[0]}])
    watch = module._Collections()

    for passed, more, quiet in [
        (0.01, 0, True),  # nothing
        (0.41, 1, True),  # one of 0.4 s
        (0.01 + module.HELD_S / 2, 1, True),  # one that nobody notices
        (0.51, 0, True),  # something else held the GIL
        (0.61, 1, False),  # the profiler may have
        (0.21, 2, True),  # two of 0.2 s together
    ]:
        now[0] += passed
        full[0] += more
        watch.look(0.01, quiet=quiet)

    assert [one[1] for one in watch.seen] == pytest.approx([0.4, 0.2])
    assert watch.watched_s == pytest.approx(0.01 + 0.41 + 0.01 + module.HELD_S / 2 + 0.51 + 0.21)
