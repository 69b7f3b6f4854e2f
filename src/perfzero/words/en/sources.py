"""Sources: why a library, a driver or a GPU cannot be read."""

from __future__ import annotations

from collections.abc import Mapping

SOURCES: Mapping[str, str] = {
    "cupti.not_loaded": "{path}: not loaded as root, since others than root can change it",
    "cupti.old": "{path}: version {version} is older than CUDA 12.6",
    "cupti.none": (
        "No libcupti of CUDA 12.6 or later can be loaded, so hardware counters cannot be "
        "sampled.{detail}\nInstall one:  pip install 'perfzero[cupti]'   or name one: "
        "PERFZERO_CUPTI=/path/to/libcupti.so.13\nOr record without: perfzero record --source gpm"
    ),
    "driver.none": (
        "There is no NVIDIA driver here: {why}.\nWhat can be read on this machine: perfzero doctor"
    ),
    "driver.no_gpu": (
        "The NVIDIA driver sees no GPU: {why}.\nWhat can be read on this machine: perfzero doctor"
    ),
    "nvml.no_package": (
        "NVML cannot be read: the Python package nvidia-ml-py is missing.\nInstall it beside perfzero: "
        "pip install nvidia-ml-py"
    ),
    "nvml.no_such_gpu": "NVML knows no GPU {uuid}: {why}.\nSee which GPUs are here: perfzero doctor",
    "nvml.lost": (
        "The GPU {uuid} no longer answers: {why}.\nThe driver's log has the reason: sudo dmesg | grep -i "
        "-e nvrm -e xid"
    ),
    "nvml.permission": (
        "{what}: the driver reserves this for administrators.\nRun as root, or see what else can be read: "
        "perfzero doctor"
    ),
    "nvml.unsupported": (
        "{what}: not supported by this GPU or driver ({why}).\nSee what can be read here: perfzero doctor"
    ),
    "nvml.failed": "{what} failed: {why}.\nSee what can be read here: perfzero doctor",
    "nvml.no_gpu": (
        "The NVIDIA driver is loaded but shows no GPU.\nIn a container, start it with --gpus all; "
        "otherwise see: nvidia-smi -L"
    ),
    "gpu.unknown": "There is no GPU {name} here.\nThe GPUs of this machine: {here}",
    "driver.updated": (
        "The NVIDIA driver was updated while its old kernel module is still loaded.\nReboot, or reload "
        "the module; nvidia-smi fails in the same way until then."
    ),
    "driver.not_found": (
        "There is no NVIDIA driver here (libnvidia-ml.so.1 was not found).\nOn a machine with a GPU, "
        "install the driver; in a container, start it with --gpus all.\nWithout a GPU, see how perfzero "
        "works: perfzero demo"
    ),
    "driver.silent": (
        "The NVIDIA driver does not answer: {why}.\nSee whether it is loaded: nvidia-smi\nWithout a GPU, "
        "see how perfzero works: perfzero demo"
    ),
    "cupti.hidden": (
        "CUDA does not see the GPU {uuid}: is it hidden by CUDA_VISIBLE_DEVICES, or a MIG instance?"
    ),
    "cupti.driver_silent": (
        "The CUDA driver does not answer for the GPU {uuid}: {why}.\nWhat can be read on this machine: "
        "perfzero doctor"
    ),
    "cupti.no_counter": "No hardware counter of this GPU can be sampled with this libcupti.",
    "cupti.overflowed": "the hardware buffer overflowed",
    "cupti.missing": "samples are missing",
    "cupti.ended": "sampling ended by itself",
    "cupti.stopped": "PM sampling stopped delivering samples, with no error from the driver.",
    "cupti.ended_before": "sampling ended before it was stopped",
    "cupti.clock_back": "the machine's clock was set back",
    "cupti.without": "Or record without them: perfzero record --source gpm",
    "cupti.busy": (
        "Another tool holds the hardware counters of this GPU: DCGM, Nsight or another perfzero.\nPause "
        "it (for DCGM: dcgmi profile --pause) and start again.\n{without}"
    ),
    "cupti.not_permitted": (
        "The driver keeps the hardware counters from this user (RmProfilingAdminOnly is 1).\nRun as root: "
        "sudo perfzero ...   or unlock them for good: perfzero doctor shows the line.\n{without}"
    ),
    "cupti.unsupported": "PM sampling is not supported on this GPU",
    "cupti.virtual": "this virtual GPU offers no counters",
    "cupti.confidential": "confidential computing is on",
    "cupti.mig": "the GPU is partitioned by MIG",
    "cupti.wsl": "WSL offers no counters",
    "cupti.cannot": "Hardware counters cannot be sampled: {why}.\n{without}",
    "gpm.mig": (
        "GPM of {name} is not read while the GPU is divided into MIG devices.\nRecord the board state "
        "alone, or see what can be read here: perfzero doctor"
    ),
    "gpm.driver": (
        "The driver {driver} offers no GPM for {name}.\nUpdate the driver, or see what can be read here: "
        "perfzero doctor"
    ),
    "gpm.none": (
        "{name} has no GPM: it needs a Hopper or later data-centre GPU.\nperfzero reads such a GPU in "
        "windows of PM sampling; see: perfzero doctor"
    ),
    "host.no_process": (
        "There is no process {pid} that can be observed: {why}.\nSee what runs: ps -ef; a process of "
        "another user needs sudo perfzero ..."
    ),
    "pyspy.missing": "py-spy is not installed.\nInstall it beside perfzero: pip install py-spy",
    "pyspy.no_start": "py-spy cannot be started: {why}",
    "pyspy.large": "its stacks take more than {size} MiB",
    "pyspy.ended": "it ended with {code}",
    "pyspy.no_end": "it did not end in time",
    "pyspy.no_memory": "this user may not read the program's memory",
    "replay.of_gpu": "{stream} of GPU {gpu}",
    "replay.on_gpu": " of GPU {gpu}",
    "replay.no_samples": "{path} has no samples of {stream}{where}.\nName a stream that it has: {there}.",
}
