"""Signals: why no steps are seen, and what of a look, of stacks or of a whole recording cannot be told."""

from __future__ import annotations

from collections.abc import Mapping

SIGNALS: Mapping[str, str] = {
    "trace.of": "{file}：{why}",
    "trace.unexpected": "这份追踪数据无法分解（{kind}），这是 perfzero 的错误；其余部分与没有它时相同。",
    "refined.failed": (
        "计数器以外所见无法与结论对照（{step}：{kind}），这是 perfzero 的错误；其余部分与没有它时相同。"
    ),
    "trace.unsettled": (
        "这份追踪数据对各项建议说明了什么无法得出（{kind}），这是 perfzero 的错误；其余部分与没有它时相同。"
    ),
    "no_steps.groups": "节拍分为几组，但每组落在采样上的位置相同，所以可能只是采样使它们显得不同。",
    "no_steps.no_beginning": "步的某些部分在重复，但无法判断整步从哪里开始。",
    "no_steps.faster_between": (
        "GPU 每隔固定时间等待一次，但两次等待之间还有更快的重复，所以等待可能每隔若干步才有一次。"
    ),
    "no_steps.too_fast": "有东西每隔 {length} 重复一次，快到可能只是一个内核、一波线程块或一层。",
    "no_steps.vary": "看到的步长短差别太大：平均值在 {low} 与 {high} 之间。",
    "no_steps.not_close": "采样不够细，看不出单个的步。",
    "no_steps.bursts_only": (
        "细采样中有重复，但这样长的步在较长的窗口里应该看得到却没有，所以重复的可能只是步的一部分。"
    ),
    "no_steps.bursts_slower": "细采样中有重复，但较长的窗口里还有更慢的变化，所以重复的可能只是步的一部分。",
    "no_steps.differ": "窗口与细采样显示的步不一样；其中一个不是真正的步。",
    "no_steps.holes": "不间断的采样太少，看不出步的重复。",
    "no_steps.no_change": "没有哪个计数器的变化足以显示步从哪里开始。",
    "no_steps.short": "步或其各部分比几个采样还短。",
    "no_steps.nothing": "计数器中没有按固定间隔重复的东西。",
    "no_steps.uneven": "有东西按固定间隔重复，但其间的工作不均匀也不重复：可能只是步的一部分。",
    "no_steps.alternate": "长短节拍交替出现，所以每一拍可能只是步的一部分。",
    "no_steps.timer": (
        "有东西按固定间隔重复，但其间的工作时多时少：这可能是定时器的节拍（如 CPU "
        "配额）、步的一部分，或工作量不等的步。"
    ),
    "no_steps.drift": "有东西按固定间隔重复，但其间的工作随时间增多或减少，所以任何一个步时间都不准确。",
    "layers.many_at_once": "同时运行或落在同一采样内的内核太多，计数器无法分摊。",
    "layers.seen": "只在内核时间的 {share} 里采到计数器",
    "layers.too_little": "{seen}，太少，无法按内核给出。",
    "layers.like_it": "{seen}；其余视为与之相同。",
    "stacks.unexpected": (
        "GPU 在等哪一行无法得出（{kind}），这是 perfzero 的错误；其余部分与没有这些行时相同。"
    ),
    "stacks.too_many": "看到主机端所处的位置太多，无法区分。",
    "stacks.not_sampled": "没有采样主机端。",
    "stacks.no_counters": "采样主机端时没有采样硬件计数器。",
    "stacks.too_rarely": "采样计数器期间看到主机端的次数太少。",
    "stacks.not_worth": "GPU 空闲的时间太少，哪一行都不要紧。",
    "stacks.hardly_idle": "采样主机端期间 GPU 几乎没有空闲。",
    "layers.several_gpus": "追踪数据里有多块 GPU 的工作，所以没有把计数器分摊给它。",
    "layers.no_sample": "追踪数据的时间内没有 GPU 计数器的采样。",
    "layers.clocks": "追踪数据与计数器的时钟无法对齐，只好视为同一个时钟。",
    "layers.long_samples": "计数器的采样长 {length} ms：模块的数字可信，单个内核的较不可信。",
    "layers.no_work": "追踪数据里没有 GPU 的工作。",
    "layers.no_steps": "追踪数据没有标出步，所以没有每步的时间。",
    "look.ended_early": "它在走完要看的步之前就结束了",
    "look.other_worker": "它是另一个进程的工作进程",
    "look.nor": "，另有 {number} 个进程也没有",
    "look.not_all": "没有给出全部的层",
    "look.none": "没有给出程序的层",
    "look.untold": "{lost}，因为没有深入观察进程 {pid}{more}：{why}。",
    "doubt.why": "{doubt}。原因：{reason}。",
    "write.unwritten": (
        "{folder}：{missing} 写不出来（{why}）。\n上面的结论是完整的；缺的只是文件。\n请腾出空间，或写到别"
        "处：perfzero analyze {recording} --output-dir DIR"
    ),
    "write.unmade": (
        "{folder}：{missing} 生成不出来（{why}）。\n上面的结论是完整的；缺的只是这里列出的文件。这"
        "是 perfzero 的错误：请附上这一行报告它。"
    ),
    "write.taken": (
        "{folder} 里已有 {names}，而且不属于这次录制。\n什么也没有写。请换一个文件夹，或覆盖它们：--force"
    ),
    "trace.first_read": "对程序的 {count} 次深入观察中，只读取了前 {most} 次。",
    "trace.several_gpus": "它使用了多块 GPU，所以没有把计数器分摊给它。",
    "trace.shared": "它的其他进程使用了同一块 GPU，所以没有把计数器分摊给它。",
    "trace.another": "另一个程序也占用了它的 GPU，那个程序读取的也算在了它的名下。",
}
