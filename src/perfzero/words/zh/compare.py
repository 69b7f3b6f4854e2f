"""Comparisons and the log of a project: what `compare`, `log` and `run --against` say."""

from __future__ import annotations

from collections.abc import Mapping

COMPARE: Mapping[str, str] = {
    "compare.faster": "{after} 的速度是 {before} 的 {times}（{interval}）{promise}。",
    "compare.slower": "{after} 比 {before} 慢 {share}（{interval}）{promise}。",
    "compare.same": "{after} 与 {before} 一样快：没有实质差别（{interval}）{promise}。",
    "compare.unknown": "无法判断 {after} 是否比 {before} 快：可能是 {interval}。",
    "compare.no_interval": "{after} 的速度似乎是 {before} 的 {times}；数据太少，无法说明有多大把握。",
    "compare.no_steps": "无法判断 {after} 相对 {before} 有多快：{where} 中没有找到步长时间。",
    "compare.kept": "，符合预期（{gain}）",
    "compare.more": "，超出预期（{gain}）",
    "compare.less": "，低于预期（{gain}）",
    "compare.limit_came": "现在的瓶颈是{limit}，与预期一致。",
    "compare.limit_other": "现在的瓶颈是{limit}；原先预期的是{foreseen}。",
    "compare.limit_now": "现在的瓶颈是{limit}。",
    "compare.to": "{low} 到 {high}",
    "compare.foresaw": "{before} 的预期是 {gain}：{remedy}",
    "compare.foresaw_limit": "之后的瓶颈：{limit}。",
    "compare.column_change": "{after} 相对 {before}",
    "compare.word_same": "没有实质差别",
    "compare.word_unknown": "无法判断",
    "compare.word_faster": "更快",
    "compare.word_slower": "更慢",
    "compare.points": "{number} 个百分点",
    "compare.times": "{number} 倍",
    "compare.group_speed": "速度",
    "compare.group_gpu": "GPU",
    "compare.group_bytes": "每步",
    "compare.group_time": "一步的时间花在哪里",
    "compare.group_share": "时间花在哪里",
    "compare.group_layers": "各层，每步",
    "compare.unlike": "机器不同，仍按要求比较：",
    "compare.differs": "并非处处相同：",
    "compare.runs": "{count} 次运行",
    "compare.family": (
        "{confidence} 置信区间，已计入各次运行之间的差异；除步速外，对全部 {count} 行同时成立。"
        "±{margin} 以内视为没有实质差别。"
    ),
    "compare.marks": "≈ 表示没有实质差别，? 表示无法判断；区间见文件（-o）。",
    "compare.record_longer": "想更有把握，请录得更久，或每个程序录几次：perfzero compare A1,A2,A3 B1,B2,B3",
    "compare.metric.step_rate": "步速",
    "compare.metric.step_time": "步长时间",
    "compare.metric.step_cycles": "一步的 SM 周期数",
    "compare.metric.step_energy": "每步能耗",
    "compare.metric.idle": "空闲",
    "compare.metric.gr_active": "GPU 活跃",
    "compare.metric.sm_active": "SM 活跃",
    "compare.metric.tensor_active": "张量核心",
    "compare.metric.fma_active": "FP32 流水线",
    "compare.metric.fp32_active": "FP32 运算",
    "compare.metric.fp64_active": "FP64 流水线",
    "compare.metric.dram_active": "显存活跃",
    "compare.metric.dram_read": "显存读取",
    "compare.metric.dram_write": "显存写入",
    "compare.metric.l2_hit": "L2 命中率",
    "compare.metric.pcie_rx": "PCIe 传入 GPU",
    "compare.metric.pcie_tx": "PCIe 传出 GPU",
    "compare.metric.nvlink_rx": "NVLink 传入 GPU",
    "compare.metric.nvlink_tx": "NVLink 传出 GPU",
    "compare.metric.launches": "内核",
    "compare.metric.sm_clock": "SM 频率",
    "compare.metric.power": "功率",
    "compare.metric.temperature": "温度",
    "compare.metric.memory_used": "已用显存",
    "compare.metric.smi_utilization": "nvidia-smi 的说法",
    "compare.metric.step_dram_read": "从显存读取",
    "compare.metric.step_dram_write": "写入显存",
    "compare.metric.step_pcie_rx": "经 PCIe 传入 GPU",
    "compare.metric.step_pcie_tx": "经 PCIe 传出",
    "compare.metric.step_nvlink_rx": "经 NVLink 传入 GPU",
    "compare.metric.step_launches": "启动的内核",
    "log.column_recording": "录制、结论与备注",
    "log.column_step": "步长时间",
    "log.column_before": "相对上一次",
    "log.column_first": "相对第一次",
    "log.left_out": "省略了更早的 {count} 次录制：--last",
    "log.trouble": "无法读取：{why}",
    "log.no_step": "没有找到步长时间，因此不比较速度。",
    "log.machine": "机器不同，因此不比较速度：{fact}",
    "log.note": "“{note}”",
    "log.stop_roof": "可以到此为止：{roof}的实际上限已经达到，没有省力的提升可找了。",
    "log.stop_nothing": "剩下能做的都说不出收益。耗时最多的是{roof}。",
    "log.stop_little": "可以到此为止：剩下的预期收益是 {gain}，中值低于 {below}。",
    "log.go_on": "继续：{remedy}，预期 {gain}。",
    "log.go_on_limit": "之后的瓶颈会是{limit}。",
    "log.stop_unknown": "无法判断是否继续：最后一次录制没有结论。",
    "log.no_folder": (
        "没有文件夹 {folder}。\n请先录制：perfzero run -- python train.py，或指定一个存放录制的文件夹。"
    ),
    "log.empty": "{folder} 里没有录制。\n请先录制：perfzero run -- python train.py",
    "log.is_recording": (
        "{folder} 是一次录制，不是存放录制的文件夹。\n查看它旁边的全部录制：perfzero log {parent}"
    ),
    "log.note_nowhere": (
        "{folder} 不是录制：里面没有 manifest.json。\n请指定一个：perfzero log --note TEXT DIR"
    ),
    "log.note_empty": '备注没有内容。\n请写一些：perfzero log --note "channels-last" DIR',
    "log.notes_full": "备注已有 64 KB，够多了",
    "log.note_unwritten": "无法写入 {file}：{why}。备注没有保存。",
    "log.program": "与上一次不是同一个程序：{command}",
    "log.looks": "对 GPU 的近看（perfzero top）不算迭代；省略了 {count} 个。",
    "compare.this_run": "本次运行",
    "compare.another_program": "那是另一个程序：{command}",
    "compare.twice": "重复给出，只计一次：{paths}",
    "compare.mixed": (
        "{name} 的录制来自几个不同的程序，不是同一程序的几次运行：\n{programs}\n"
        "要比较它们，请逐个指定。仍要取它们的平均：--force"
    ),
    "compare.against_record": (
        "--against 比较的是结论，而 `record` 不给出结论。\n请用 perfzero run --against，或事后再比较。"
    ),
    "compare.against_nothing": (
        "--against {folder}：那不是录制。\n请指定一个，或用 ./perfzero-runs 里最新的：--against last"
    ),
    "compare.unlike_refused": (
        "这些录制来自不同的机器：\n{facts}\n它们之间的差别不一定出自程序。仍要比较：--force"
    ),
    "compare.too_few": (
        "比较至少需要两次录制。\n请按先后指定：perfzero compare perfzero-runs/BEFORE perfzero-runs/AFTER"
    ),
    "compare.ending": "-o {file}：从扩展名看不出要写什么。\n可用的有：{endings}",
    "compare.exists": "{file} 已经存在；没有写入任何内容。\n请换一个文件名，或替换它：--overwrite",
    "compare.unwritten": "无法写入 {file}：{why}。\n请用 -o 换一个位置。",
    "compare.no_recording": (
        "{folder} 里没有录制：其中及其下一级文件夹里都没有 manifest.json。\n"
        "请指定 `perfzero run` 或 `perfzero record` 写出的文件夹。"
    ),
    "compare.not_watched": "{folder} 里没有 GPU {gpu} 的数据。观测过的 GPU：{watched}。",
}
