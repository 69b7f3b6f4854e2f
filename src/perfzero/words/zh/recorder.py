"""The recorder: what it tells while it runs, why something was not seen, and what calibration says."""

from __future__ import annotations

from collections.abc import Mapping

RECORDER: Mapping[str, str] = {
    "progress.waiting for work": "等待工作",
    "progress.warm-up": "预热",
    "progress.looking closely": "细看",
    "progress.watching": "观察",
    "choice.window_s": "窗口长 {length}（{why}）",
    "choice.period_ns": "采样间隔 {length}（{why}）",
    "choice.zoom_s": "细采样长 {length}（{why}）",
    "choice.zoom_period_ns": "细采样间隔 {length}（{why}）",
    "choice.step": "{number} 步",
    "choice.steps": "{number} 步",
    "sure.no_verdict": "还没有结论",
    "sure.on_gpu": "GPU {gpu}：",
    "unseen.layers": "层",
    "unseen.lines": "代码行",
    "stacks.off": "没有采样主机端：{why}",
    "stacks.was_off": "没有采样主机端：{why}。",
    "busy.process": "进程 {pid}",
    "busy.processes": "进程 {pids}",
    "look.process": "进程 {pid}",
    "look.processes": "{count} 个进程",
    "tier.gpm_averages": "GPM 平均值",
    "look.too_short": "录制在那之前就结束了",
    "unseen.not_entered": (
        "没有给出程序的层：无法深入观察进程 {pid}，因为{why}。要看到它们，请这样启动：perfzero run -- CMD"
    ),
    "unseen.not_asked": (
        "没有给出程序的层：它早已在运行，只有加上 --agent（Python 3.14 或更高）才会进入。要看到它们，请这"
        "样启动：perfzero run -- CMD"
    ),
    "unseen.or_lines": "，或用 perfzero run --pid PID 找出它的代码行",
    "unseen.no_program": (
        "没有给出程序的{wanted}：用 --gpu 时不观察任何程序。要看到它们，请这样启动：perfzero run -- "
        "CMD{other}"
    ),
    "unseen.no_process": "没有进程 {pid} 可以附加。",
    "calibrate.no_program": "没有程序 {asked}。\n请给出一个 Python：--python /path/to/python",
    "calibrate.no_framework": (
        "{pythons} 都没有安装 torch 或 cupy；测量要靠其中之一。\n请给出装有其中之一的环境的 "
        "Python：perfzero calibrate --python /path/to/python"
    ),
    "busy.can_compute": "{who}可能在上面计算",
    "busy.was_busy": "刚才它有 {share} 的时间在忙，虽然看不到进程",
    "busy.in_use": (
        "GPU {gpu} 正在使用中：{why}，此时测出的屋顶会偏低。\n请等到它空闲，或照样测量：perfzero "
        "calibrate --force"
    ),
    "calibrate.mig": "GPU {gpu} 被 MIG 划分，其各部分的峰值未知。\n它的报告以内置表的屋顶为准。",
    "calibrate.none": "GPU {gpu} 的屋顶一个也没有测出来。\n请在 GPU 空闲时再试：perfzero calibrate",
    "calibrate.too_long": (
        "GPU {gpu} 上的测量没有在 {seconds} s 内结束。\n请看这样是否可行：{python} -c 'import torch; "
        "torch.ones(1).cuda()'"
    ),
    "exit_code": "退出码 {code}",
    "calibrate.broke_off": (
        "测量在 {python} 中中断：{why}。\n请给出一个 torch 或 cupy 能用这块 GPU 的 Python：perfzero "
        "calibrate --python /path/to/python"
    ),
    "calibrate.unmeasured": "{name} 没能测出：{why}",
    "calibrate.wrong": "{name} 测得 {value}，不可能正确，已略去",
    "sure.nothing": "没有可供判断的内容",
    "sure.failed": "无法判断这次录制",
    "sure.confidence": "{where}{rule} 的置信度为 {confidence}{against}",
    "sure.not_long": "{where}{rule} 持续的时间还不够长",
    "sure.gain_moves": "{where}{rule} 的预计提升仍有超过 {moved} 的变动",
    "choice.holds": "一个窗口含 {held}，每步 {step}",
    "choice.longer": "一步长 {step}，比窗口还长",
    "choice.samples": "一步长 {step}，有 {samples} 个采样",
    "choice.covers": "细采样覆盖 {held}，每步 {step}",
    "choice.burst_samples": "细采样有 {samples} 个采样",
    "cost.no_rate": "从外部看不到程序的稳定速率",
    "cost.few": "只有 {count} 个窗口可以与其前后比较",
    "cost.varies": "程序自身的速率变化太大（±{margin}）",
    "roofs.no_home": (
        "屋顶保存在家目录里，而用户 {user} 没有家目录。\n请选一个文件夹：XDG_CONFIG_HOME=/a/folder "
        "perfzero calibrate"
    ),
    "roofs.format": "其格式 {format} 不是 {ours}：由另一个版本的 perfzero 写成",
    "roofs.unreadable": (
        "{path} 里标定的屋顶无法读取：{why}。\n请删除并重新测量：perfzero calibrate --forget; perfzero "
        "calibrate"
    ),
    "roofs.impossible": "其中的 {kind}[{name}] 不可能是 GPU 的数值",
    "roofs.not_plain": "它不是普通文件",
    "roofs.too_large": "它大于 {size} 字节",
    "roofs.refused": "略去了 GPU {gpu} 的标定屋顶中不可能正确的：{names}",
    "launch.not_found": "{name}：找不到命令",
    "launch.no_permission": "{name}：没有权限",
    "look.begins": "正在深入观察{who}的几步，其间它们会变慢（--no-agent：从不这样做）",
    "look.refused": "没有深入观察进程 {pid}：{reason}",
    "look.could_not_tell": "无法通知它：{why}",
    "look.not_ready": "它没有及时做好准备",
    "look.no_answer": "它没有及时回答",
    "look.cupti_stays": "无法从进程 {pid} 中撤出 CUPTI，它可能因此一直较慢",
    "look.done": "已深入观察进程 {pid}：它被耽搁了 {seconds} s",
    "look.not_kept": "{name} 无法保存：{why}",
    "look.no_own_file": "它不是单独的文件",
    "look.too_large": "{size} MiB 超过了 {most}",
    "enter.other_user": "它属于另一个用户",
    "enter.several_users": "它同时有多个用户的权限",
    "enter.container": "它在容器里运行，而 perfzero 不在同一个容器里",
    "enter.ended": "它已经结束，或我们看不到它",
    "enter.replaced": "它的 Python 在它启动之后被替换了",
    "enter.part_of": "它的 Python {python} 是另一个程序的一部分",
    "enter.root": "root 不运行别人能改动的 Python；请用 Python {python} 运行 perfzero，或以该程序的用户运行",
    "enter.no_python": "它运行的不是 perfzero 认识的 Python",
    "enter.old_python": "它的 Python 是 {python}，只有 3.14 或更高版本才能进入",
    "enter.other_group": "它属于与第一个进程不同的用户或组",
    "enter.no_time": "没能及时询问它",
    "enter.nothing": "它没有导入任何可以深入观察的东西，或是在为另一个进程工作",
    "enter.one_call": "它的主线程在一次调用里停留了 {seconds} s",
    "enter.no_memory": "这个用户不能写它的内存{yama}",
    "enter.forbids": "它禁止这样做：PYTHON_DISABLE_REMOTE_DEBUG，或 -X disable-remote-debug",
    "enter.without_way": "它的 Python 编译时没有留入口",
    "enter.unasked_as": "无法询问它：{last}",
    "enter.unasked": "无法询问它",
    "enter.yama": "（kernel.yama.ptrace_scope 为 {scope}）",
    "sampler.no_start": "采样器无法启动：{error}。",
    "sampler.silent": "它有 {seconds} s 没有任何消息",
    "sampler.library": "libcupti {version}，来自 {path}",
    "sampler.slow": "取得计数器用了 {seconds} s；其间没有窗口开始。",
    "sampler.late": "缓冲区晚了 {seconds} s 才清空",
    "sampler.sudo": "驱动只允许 root 使用计数器：仅用 sudo 启动采样器",
    "sampler.retries": "GPU {gpu}：{first}每隔 {seconds} s 重试一次。",
    "sampler.ended": "采样器意外结束（{detail}）。",
    "look.no_memory": "它的 GPU 空闲显存不足 {size} MiB",
    "gpu.none": "驱动没有列出 GPU。\n这台机器上能读到什么：perfzero doctor",
    "look.cannot": "无法深入观察程序：{why}",
    "run.as_user": "程序以 {user} 的身份运行，而不是 root",
    "sure.not_yet": "第一次判断还没有完成",
    "sure.never": "结论始终没有确定：{doubt}。",
    "write.not_all": "没能全部写入：{what}",
    "run.had_ended": "还没来得及观察，程序就已结束。",
    "run.processes_hidden": "驱动不显示哪个进程使用哪块 GPU：全部观察",
    "run.ids_hidden": "进程号被隐藏：没有任何进程号的 GPU 都在观察。",
    "stacks.not_kept": "主机端的调用栈无法保存：{why}。",
    "steps.unseen_yet": "还看不到步时间：其间窗口保持默认间隔",
    "steps.pauses": "，因为窗口之间的停顿要有窗口长度的十倍",
    "steps.every": "一步用时 {length} ms：每 {steps} 步一个窗口{why}",
    "sure.goes_on": "，程序继续运行",
    "sure.now": "{seconds} 后结论已确定：停止采样{goes_on}。",
    "tier.source": "--source {name}",
    "tier.counters": "硬件计数器",
    "tier.no_window": "没有硬件采样的窗口：GPU 没有工作，或运行时间太短",
    "cost.no_gpu": "没有观察任何 GPU",
    "cost.worst": "GPU {gpu}，是能测到的 {count} 块中最差的",
    "gpu.twins": (
        "{one} 和 {other} 是同一块 GPU {gpu} 的两部分，一次录制放不下两者。\n请用各自的 --gpu 逐个录制。"
    ),
    "stacks.process": "主机端的进程 {pid} 无法采样：{why}。",
    "stacks.no_python": "它没有运行 Python，或没有被看到",
    "counters.lent": "采样 GPM 代为提供的那些，因为 GPM 已不再提供",
    "counters.lean": "都已看到稳态：略去 L2 和 FP32 流水线的计数器，它们占一半的 CPU 开销",
    "counters.complete": "被略去的重新开始观察",
    "xid.times": "{count} 次",
    "xid.reported": "驱动报告了 Xid {number}{times}；其含义见 NVIDIA 的 Xid 目录。",
    "xid.said": "GPU {gpu}：驱动报告了错误，Xid {number}",
    "watch.warm": "GPU {gpu}：{seconds} s 后预热结束，开始细看",
    "watch.settled_again": "程序稳定后不久又变了水平，{seconds} s 后重新稳定。",
    "watch.again": "GPU {gpu}：{seconds} s 后预热才真正结束，重新细看",
    "tier.one_pass": "一遍采样 {count} 个硬件计数器",
    "watch.apart": "从现在起采样间隔为 {length}：{why}。",
    "tier.board": "板卡自身的数字",
    "tier.instead": "{why}改用{instead}观察。",
    "watch.instead": "GPU {gpu}：{why}改用{instead}观察。",
    "folder.roots": "没有只有 root 能写的文件夹",
    "folder.own": "没有只有该用户能写的文件夹",
}
