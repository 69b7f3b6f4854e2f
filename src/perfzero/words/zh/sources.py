"""Sources: why a library, a driver or a GPU cannot be read."""

from __future__ import annotations

from collections.abc import Mapping

SOURCES: Mapping[str, str] = {
    "cupti.not_loaded": "{path}：没有以 root 身份加载，因为 root 以外的人也能改动它",
    "cupti.old": "{path}：版本 {version} 早于 CUDA 12.6",
    "cupti.none": (
        "没有可加载的 CUDA 12.6 或更高版本的 libcupti，所以无法采样硬件计数器。{detail}\n请安装一个：pip "
        "install 'perfzero[cupti]'   或指定一个：PERFZERO_CUPTI=/path/to/libcupti.so.13\n或不用它录制：per"
        "fzero record --source gpm"
    ),
    "driver.none": "这里没有 NVIDIA 驱动：{why}。\n这台机器上能读到什么：perfzero doctor",
    "driver.no_gpu": "NVIDIA 驱动看不到 GPU：{why}。\n这台机器上能读到什么：perfzero doctor",
    "nvml.no_package": (
        "无法读取 NVML：缺少 Python 包 nvidia-ml-py。\n请把它装在 perfzero 旁边：pip install nvidia-ml-py"
    ),
    "nvml.no_such_gpu": "NVML 不认识 GPU {uuid}：{why}。\n看看这里有哪些 GPU：perfzero doctor",
    "nvml.lost": "GPU {uuid} 不再应答：{why}。\n原因在驱动的日志里：sudo dmesg | grep -i -e nvrm -e xid",
    "nvml.permission": "{what}：驱动只允许管理员使用。\n请以 root 运行，或看看还能读到什么：perfzero doctor",
    "nvml.unsupported": "{what}：这块 GPU 或驱动不支持（{why}）。\n看看这里能读到什么：perfzero doctor",
    "nvml.failed": "{what} 失败：{why}。\n看看这里能读到什么：perfzero doctor",
    "nvml.no_gpu": "NVIDIA 驱动已加载，但看不到 GPU。\n在容器里请用 --gpus all 启动；否则请看：nvidia-smi -L",
    "gpu.unknown": "这里没有 GPU {name}。\n这台机器的 GPU：{here}",
    "driver.updated": (
        "NVIDIA 驱动已更新，而旧的内核模块仍在加载。\n请重启，或重新加载模块；在此之前 nvidia-smi "
        "也会同样失败。"
    ),
    "driver.not_found": (
        "这里没有 NVIDIA 驱动（找不到 libnvidia-ml.so.1）。\n在有 GPU 的机器上请安装驱动；在容器里请用 "
        "--gpus all 启动。\n没有 GPU 也可以看看 perfzero 怎样工作：perfzero demo"
    ),
    "driver.silent": (
        "NVIDIA 驱动没有应答：{why}。\n看看它是否已加载：nvidia-smi\n没有 GPU 也可以看看 perfzero "
        "怎样工作：perfzero demo"
    ),
    "cupti.hidden": "CUDA 看不到 GPU {uuid}：是否被 CUDA_VISIBLE_DEVICES 隐藏，或者它是 MIG 实例？",
    "cupti.driver_silent": "CUDA 驱动对 GPU {uuid} 没有应答：{why}。\n这台机器上能读到什么：perfzero doctor",
    "cupti.no_counter": "用这个 libcupti 采样不到这块 GPU 的任何硬件计数器。",
    "cupti.overflowed": "硬件缓冲区溢出",
    "cupti.missing": "缺少采样",
    "cupti.ended": "采样自行结束",
    "cupti.stopped": "PM 采样不再给出采样，驱动也没有报错。",
    "cupti.ended_before": "采样在停止之前就已结束",
    "cupti.clock_back": "机器的时钟被往回拨了",
    "cupti.without": "或不用它们录制：perfzero record --source gpm",
    "cupti.busy": (
        "另一个工具占用了这块 GPU 的硬件计数器：DCGM、Nsight 或另一个 perfzero。\n请让它暂停（DCGM：dcgmi "
        "profile --pause）再重新开始。\n{without}"
    ),
    "cupti.not_permitted": (
        "驱动不允许这个用户使用硬件计数器（RmProfilingAdminOnly 为 1）。\n请以 root 运行：sudo perfzero "
        "...   或永久解锁：perfzero doctor 会给出那一行。\n{without}"
    ),
    "cupti.unsupported": "这块 GPU 不支持 PM 采样",
    "cupti.virtual": "这块虚拟 GPU 不提供计数器",
    "cupti.confidential": "机密计算已开启",
    "cupti.mig": "这块 GPU 被 MIG 划分",
    "cupti.wsl": "WSL 不提供计数器",
    "cupti.cannot": "无法采样硬件计数器：{why}。\n{without}",
    "gpm.mig": (
        "{name} 被划分为 MIG 设备期间不读取其 GPM。\n请只录制板卡状态，或看看这里能读到什么：perfzero doctor"
    ),
    "gpm.driver": "驱动 {driver} 不为 {name} 提供 GPM。\n请更新驱动，或看看这里能读到什么：perfzero doctor",
    "gpm.none": (
        "{name} 没有 GPM：它需要 Hopper 或更新的数据中心 GPU。\nperfzero 用 PM 采样的窗口读取这样的 "
        "GPU；见：perfzero doctor"
    ),
    "host.no_process": (
        "没有可以观察的进程 {pid}：{why}。\n看看有哪些在运行：ps -ef；别的用户的进程需要 sudo perfzero ..."
    ),
    "pyspy.missing": "没有安装 py-spy。\n请把它装在 perfzero 旁边：pip install py-spy",
    "pyspy.no_start": "py-spy 无法启动：{why}",
    "pyspy.large": "它的调用栈超过 {size} MiB",
    "pyspy.ended": "它以 {code} 结束",
    "pyspy.no_end": "它没有及时结束",
    "pyspy.no_memory": "这个用户不能读取该程序的内存",
    "replay.of_gpu": "GPU {gpu} 的 {stream}",
    "replay.on_gpu": "（GPU {gpu}）",
    "replay.no_samples": "{path} 没有 {stream}{where}的采样。\n请给出它有的数据流：{there}。",
}
