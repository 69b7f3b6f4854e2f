"""timeline.png: titles, axes, lines and marks."""

from __future__ import annotations

from collections.abc import Mapping

PLOTS: Mapping[str, str] = {
    "plot.no_sample": "没有可画的采样。",
    "plot.title": "GPU {gpu}：{panel}",
    "plot.seconds": "录制开始后的秒数",
    "plot.seconds_close": "秒：最后一个 PM 窗口，放大",
    "plot.window": "PM 窗口",
    "plot.zoom": "细采样",
    "plot.warm_up": "预热，不参与判断",
    "plot.gap": "空缺",
    "plot.memory": "显存",
    "plot.read": "读",
    "plot.write": "写",
    "plot.read_write": "读写合计",
    "plot.roof_memory": "读写合计的实际屋顶",
    "plot.of_peak": "占峰值的 %",
    "plot.busy": "忙碌",
    "plot.of_time": "占时间的 %",
    "plot.tensor": "张量核心",
    "plot.to_gpu": "到 GPU",
    "plot.from_gpu": "从 GPU",
    "plot.roof_link": "单向的实际屋顶",
    "plot.kernel_launches": "内核启动",
    "plot.thousands": "千次/s",
    "plot.launches": "启动",
    "plot.power": "功耗",
    "plot.board": "板卡",
    "plot.limit": "上限",
    "plot.clock": "SM 时钟",
}
