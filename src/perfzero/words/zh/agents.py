"""What agents in the observed program say: files of their own, in which these sentences stand, too."""

from __future__ import annotations

from collections.abc import Mapping

AGENTS: Mapping[str, str] = {
    "agent.without_torch": "它使用 GPU 但不用 PyTorch；加上 --agent 仍可深入观察",
    "agent.somebody": "那里已有别人在监听",
    "agent.profiles": "程序在对自己做性能分析",
    "agent.x86": "PyTorch 以外的程序只能在 x86-64 上深入观察",
    "agent.no_code": "这个系统不允许运行新代码：{why}",
    "agent.no_memory": "没有内存存放记录：{why}",
    "agent.old_cupti": "它的 CUPTI 早于 CUDA 12.6，用它会让程序一直较慢",
    "agent.no_cuda": "它没有加载 CUDA",
    "agent.no_clock": "它的 CUPTI 不给出时间",
    "agent.unused_cuda": "它加载了 CUDA，但还没有使用",
    "agent.no_libcupti": "找不到 libcupti：pip install nvidia-cuda-cupti",
    "agent.watched": "另一个工具在监视它（设置了 {name}）",
    "agent.own_cupti": "它自己在使用 CUPTI（其模块 {name}）",
    "agent.jax_server": "其中有 jax.profiler 的服务在监听，随时可能对它做分析",
    "agent.dropped": "CUPTI 丢弃了 {count} 条记录",
    "agent.unknown_records": "看不懂它的 CUPTI（版本 {version}）的记录",
    "agent.taken": "另一个工具已在其中使用 CUPTI",
    "agent.nothing_ran": "其间它的 GPU 上没有任何运行",
    "agent.recorder_late": "录制器没有及时准备好",
    "agent.recorder_gone": "录制器已退出",
    "agent.no_gil": "这个 Python 运行时没有 GIL",
    "agent.not_loaded": "没有加载 {name}",
    "agent.no_step": "{seconds} s 内没有完整的一步",
    "agent.no_step_ready": "一切就绪时没有步开始",
    "agent.many_operators": "它的一步里算子太多，无法追踪",
    "agent.captures": "它正在捕获 CUDA 图",
    "agent.stuck": "perfzero 正在分析主线程，而无法通知它停止",
    "agent.deep": "它的模块嵌套太深",
    "agent.forks": "它在 fork",
    "agent.other_thread": "它的步不在主线程里",
    "agent.slow": "被追踪的步用时太长",
    "agent.teardown": "设置了 {name}={value}，它会一直较慢；加上 --agent 仍可深入观察",
    "agent.jax_graphs": "JAX 在其中生成 CUDA 图，它会一直较慢；加上 --agent 仍可深入观察",
    "agent.replays": "它重放 CUDA 图，在 CUDA {cuda} 下会一直较慢；加上 --agent 仍可深入观察",
}
