"""What agents in the observed program say: files of their own, in which these sentences stand, too."""

from __future__ import annotations

from collections.abc import Mapping

AGENTS: Mapping[str, str] = {
    "agent.without_torch": "it uses its GPU without PyTorch; --agent looks all the same",
    "agent.somebody": "somebody else listens there",
    "agent.profiles": "the program profiles itself",
    "agent.x86": "outside of PyTorch programs are looked into on x86-64 only",
    "agent.no_code": "this system lets nobody run new code: {why}",
    "agent.no_memory": "there is no memory for records: {why}",
    "agent.old_cupti": "its CUPTI is older than CUDA 12.6, and with it the program would stay slower",
    "agent.no_cuda": "it has not loaded CUDA",
    "agent.no_clock": "its CUPTI tells no time",
    "agent.unused_cuda": "it has loaded CUDA, but not used it yet",
    "agent.no_libcupti": "no libcupti is found: pip install nvidia-cuda-cupti",
    "agent.watched": "another tool watches it ({name} is set)",
    "agent.own_cupti": "it uses CUPTI itself (its module {name})",
    "agent.jax_server": "a server of jax.profiler listens in it, which may profile it at any time",
    "agent.dropped": "CUPTI dropped {count} of its records",
    "agent.unknown_records": "the records of its CUPTI (version {version}) are not understood",
    "agent.taken": "another tool has CUPTI in it",
    "agent.nothing_ran": "nothing ran on its GPU meanwhile",
    "agent.recorder_late": "the recorder was not ready in time",
    "agent.recorder_gone": "the recorder has gone",
    "agent.no_gil": "this Python runs without the GIL",
    "agent.not_loaded": "{name} is not loaded",
    "agent.no_step": "no step began and ended in {seconds} s",
    "agent.no_step_ready": "no step began when all was ready",
    "agent.many_operators": "its steps are too many operators to be traced",
    "agent.captures": "it captures a CUDA graph",
    "agent.stuck": "perfzero profiles the main thread, which could not be told to stop it",
    "agent.deep": "its modules are nested too deeply",
    "agent.forks": "it forks",
    "agent.other_thread": "its steps are not in the main thread",
    "agent.slow": "its traced steps took too long",
    "agent.teardown": "with {name}={value} it would stay slower; --agent looks all the same",
    "agent.jax_graphs": "JAX makes CUDA graphs in it, and it would stay slower; --agent looks all the same",
    "agent.replays": (
        "it replays CUDA graphs, and with CUDA {cuda} would stay slower; --agent looks all the same"
    ),
}
