"""timeline.png: titles, axes, lines and marks."""

from __future__ import annotations

from collections.abc import Mapping

PLOTS: Mapping[str, str] = {
    "plot.no_sample": "No sample to draw.",
    "plot.title": "GPU {gpu}: {panel}",
    "plot.seconds": "seconds since the recording began",
    "plot.seconds_close": "seconds: the last PM window, close up",
    "plot.window": "PM window",
    "plot.zoom": "zoom burst",
    "plot.warm_up": "warm-up, not judged",
    "plot.gap": "gap",
    "plot.memory": "Device memory",
    "plot.read": "read",
    "plot.write": "write",
    "plot.read_write": "read + write",
    "plot.roof_memory": "practical roof of read + write",
    "plot.of_peak": "% of peak",
    "plot.busy": "Busy",
    "plot.of_time": "% of time",
    "plot.tensor": "tensor",
    "plot.to_gpu": "to the GPU",
    "plot.from_gpu": "from the GPU",
    "plot.roof_link": "practical roof, each way",
    "plot.kernel_launches": "Kernel launches",
    "plot.thousands": "thousand/s",
    "plot.launches": "launches",
    "plot.power": "Power",
    "plot.board": "board",
    "plot.limit": "limit",
    "plot.clock": "SM clock",
}
