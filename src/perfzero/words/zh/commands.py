"""The command line: what commands print, what they ask for, and what is wrong with what was typed."""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "doctor.everything": "全部",
    "doctor.averages": "平均值",
    "doctor.little": "很少",
    "doctor.no_gpu": "这里读不到 NVIDIA GPU：{why}",
    "doctor.more": "更多：{gain}",
    "doctor.readable": "能读到：",
    "doctor.because": "原因：",
    "doctor.programs_hidden": "使用它的程序：驱动不显示",
    "doctor.programs": "使用它的程序：{pids}",
    "doctor.library": "{path}（{origin}）",
    "doctor.driver": "驱动",
    "doctor.no_capability": "没有 CAP_SYS_ADMIN",
    "origin.package": "Python 包",
    "origin.toolkit": "CUDA 工具包",
    "origin.system": "系统软件包",
    "main.interrupted": "已中断",
    "run.recorded": "已录制到 {path}\n          perfzero analyze {again}",
    "run.was_recorded": "已录制的内容在 {path}\n          perfzero analyze {again}",
    "demo.none_there": "没有；这个 perfzero 的安装不完整",
    "demo.no_recording": "没有附带的录制 {name}。\n有的是：{names}。",
    "demo.a_gpu": "一块 GPU",
    "demo.at_once": "一次性",
    "demo.pace": "以 {speed} 倍速度",
    "demo.introduction": "在真实的 {gpus} 上对 {name} 的录制，录于 {day}，{pace}重放。",
    "progress.step": "每步 {length}",
    "progress.samples": "{count} 个采样",
    "progress.lost": "丢失 {count}",
    "progress.lost_none": "无丢失",
    "progress.capped": "处于功耗墙",
    "doctor.pm": "在 GPU 内部采样的硬件计数器，细到微秒",
    "doctor.gpm": "硬件计数器在 0.1 s 及以上的平均值",
    "doctor.nvml": "只有板卡状态",
    "doctor.capability": "计算能力 {major}.{minor}",
    "doctor.mig": "被 MIG 划分",
    "doctor.virtual": "虚拟化：{how}",
    "doctor.no_gpm": "没有 NVML GPM",
    "doctor.none_found": "没有找到",
    "doctor.holder": "{tool}（{name}，进程 {pid}）",
    "doctor.nobody": "没有看到",
    "doctor.cuda": "驱动的 CUDA 版本",
    "doctor.counters_for": "计数器开放给",
    "doctor.this_user": "这个用户是",
    "doctor.may_hold": "可能占用计数器",
    "doctor.container": "容器（{which}）",
    "doctor.mps": "MPS：多个程序共用 GPU，整卡的计数器分不清它们",
    "doctor.around": "所处环境",
    "doctor.unknown_who": "未知：驱动在这里不显示 RmProfilingAdminOnly",
    "doctor.everybody": "所有人（RmProfilingAdminOnly 0）",
    "doctor.is_one": "这个用户是",
    "doctor.is_none": "这个用户不是",
    "doctor.admins": "管理员（RmProfilingAdminOnly 1）；{may}",
    "doctor.sudo": "不是 root，但 sudo 不需要密码",
    "doctor.no_root": "不是 root",
    "usage.until_sure": (
        "{option} 的置信度要用等号给出：{again}={number}\n要启动名为 {program} 的程序，请在它前面加 --。"
    ),
    "usage.confidence": "{option} 的置信度在 {least} 到 {most} 之间，如 {again}=0.9；给出的是 {text}。",
    "usage.either": "要么启动一个程序（-- CMD），要么附加到一个程序（--pid），不能两者都要。",
    "usage.nothing": (
        "没有要观察的。启动一个程序：perfzero run -- python train.py\n附加到一个程序：perfzero run --pid "
        "4711   或观察一块 GPU：perfzero run --gpu 0"
    ),
    "usage.gpu": "--gpu 要给出 nvidia-smi -L 所列的序号或 UUID，例如 --gpu 0,1",
    "usage.source": "--source {source} 不开启采样会话：它没有 {option}。",
    "usage.continuous": "--continuous 一直采样：它没有 --window 和 --every。",
    "usage.continuous_zoom": "--continuous 始终保持一个会话：它没有 --zoom。",
    "usage.interval": "--profiling-interval 要给出步数，1 或更大。",
    "usage.window": "--window 比 --every 长；要一直采样请用 --continuous。",
    "usage.few_samples": (
        "{window} 的窗口里，间隔 {period} 的采样不足 {least} 个。\n请加长它，--window {longer}，或用 "
        "--continuous。"
    ),
    "main.mistake": "这是 perfzero 的错误：{kind}: {error}",
    "usage.speed": "--speed {speed}：录制要以大于 0 的速度重放。",
    "trim.doubt": "存疑：{doubt}",
    "trim.done": "已裁剪：{sentence}。",
    "trim.size": "{path}：{size} KB，原为 {before} KB。",
    "usage.size": "{text} 不是大小。\n请这样给出：--max-size 400KB",
    "usage.chip_or_find": "--chip 和 --find 回答不同的问题：一次只问一个。",
    "metrics.nearest": "最接近的：{names}",
    "metrics.all": "查看全部：perfzero metrics",
    "metrics.no_counter": "没有名为 {asked} 的计数器。\n{nearest}",
    "metrics.known": "已知的：{names}",
    "metrics.no_chip": "没有名为 {chip} 的芯片。\n{hint}",
    "usage.twice": "录制给出了两次：{directory} 和 --input-dir {input_dir}。\n请用一种方式给出一次。",
    "file.no_runs": (
        "./{runs} 里没有录制。\n请给出一个：perfzero analyze DIR。或做一个：perfzero run -- python train.py"
    ),
    "usage.duration": "{option} 要给出 {least} 到 {most} 的时长，如 500ms 或 10s；给出的是 {text}。",
    "main.see_help": "{message}\n参见 `{command} --help`。",
    "main.report": "请连同上面的 traceback 和 `perfzero doctor` 的输出一起报告。",
    "main.for_traceback": (
        "要看 traceback，请设置 {variable}=1 再运行同一命令；请连同它和 `perfzero doctor` 的输出一起报告。"
    ),
    "main.mistake_hint": "这是 perfzero 的错误：{kind}: {error}\n{hint}",
    "roof.dram": "显存，c = a + s b",
    "roof.copy": "显存，拷贝",
    "roof.l2": "L2，按行求和",
    "roof.pcie_to": "PCIe 到 GPU",
    "roof.pcie_from": "PCIe 从 GPU",
    "roof.bf16": "bf16 乘法",
    "roof.fp16": "fp16 乘法",
    "roof.tf32": "tf32 乘法",
    "roof.fp32": "fp32 乘法",
    "usage.show_forget": "--show 和 --forget 不能同时使用。\n请用其中之一。",
    "calibrate.forgotten": "已删除：{count}。",
    "calibrate.nothing": "这里没有标定过 GPU。要标定：perfzero calibrate",
    "calibrate.measured": "  测于 {day} UTC，使用 {framework}，驱动 {driver}",
    "calibrate.of_link": "   链路的 {share}",
    "calibrate.of_peak": "   {clock} GHz 下峰值的 {share}",
    "calibrate.sudo": (
        "通过 sudo，{user} 的 Python 会以 root 运行，并写出 root 的文件。\n它不需要 root，请不用 sudo "
        "运行：perfzero calibrate"
    ),
    "calibrate.measuring": "正在用 {chosen} 测量 GPU {index}，{name} ...",
    "calibrate.kept": "已存入 {path}；今后的录制以它为准。",
    "calibrate.not_kept": (
        "屋顶无法存入 {path}：{why}。\n请换一个文件夹：XDG_CONFIG_HOME=/a/folder perfzero calibrate"
    ),
    "unlock.libcupti": "硬件计数器：需要 CUDA 12.6 或更高版本的 libcupti",
    "unlock.libcupti_note": (
        "torch 和每个 CUDA 工具包也都自带一个；用 PERFZERO_CUPTI=/path/to/libcupti.so.13 指定它"
    ),
    "unlock.mig": "整块 GPU 的计数器：它被 MIG 划分，而 MIG 不提供计数器",
    "unlock.mig_note": "GPU 的管理员可以取消划分；MIG 设备只能得到板卡状态",
    "unlock.vgpu": "这台虚拟机里的硬件计数器",
    "unlock.vgpu_note": "在虚拟机监控程序上：把 vGPU 插件参数设为 enable_profiling=1 并重启虚拟机",
    "unlock.processes": "哪些进程使用 GPU：容器只显示它自己的进程",
    "unlock.wsl": "GPU：它随 Windows 的 NVIDIA 驱动提供",
    "unlock.container": "GPU：这个容器启动时没有带上它",
    "unlock.driver": "GPU：没有驱动应答",
    "unlock.driver_note": "看它怎么说；没有 GPU：perfzero demo",
    "unlock.admins": "硬件计数器：驱动只开放给管理员",
    "unlock.gvisor": "硬件计数器：沙箱（gVisor）只在被告知的地方放行",
    "unlock.gvisor_note": "并在容器里设置 NVIDIA_DRIVER_CAPABILITIES=all（或 ...,profiling）",
    "unlock.perfmon": (
        "较新的驱动有 --cap-add PERFMON 就够；在 Kubernetes 里：securityContext.capabilities.add"
    ),
    "unlock.on_host": "并对主机的所有用户，在主机上",
    "unlock.for_all": "对所有用户",
    "unlock.this_run": "仅这一次运行",
    "unlock.for_good": "永久不需要 root 的硬件计数器，{whom}",
    "unlock.for_good_note": (
        "然后重启，或卸载并重新加载 nvidia 模块；在 Debian 和 Ubuntu 上先运行：sudo update-initramfs -u"
    ),
    "unlock.busy": "硬件计数器：另一个工具占用着",
    "unlock.dcgm_note": "之后再运行：dcgmi profile --resume",
    "unlock.perhaps": "{what}（也许是 {tool}，进程 {pid}）",
    "unlock.wait": "等它结束",
    "unlock.dcgm_outside": "如果 DCGM 在这个容器之外或在主机上运行",
    "doctor.through_sudo": "通过 sudo，仅限采样器",
    "doctor.can": "可以采样硬件计数器",
    "doctor.busy": "另一个工具占用着硬件计数器",
    "doctor.denied": "驱动只允许管理员使用硬件计数器",
    "doctor.no_usable": "没有可用的 libcupti",
    "doctor.untried": "没有尝试硬件计数器",
    "doctor.cannot": "无法采样硬件计数器",
    "doctor.averages_only": "{why}；NVML GPM 给出平均值",
    "doctor.no_gpm_either": "{why}，而这块 GPU 没有 GPM：只剩时钟、功耗和 nvidia-smi 的数字",
    "doctor.shows_none": "驱动没有显示 GPU",
    "doctor.try_no_end": "PM 采样的尝试没有结束：{name}",
    "doctor.try_broke_off": "PM 采样的尝试中断：{last}",
    "roof.l2_chain": "L2，逐元素",
    "main.says": "perfzero: {said}",
    "unlock.dcgm": "{what}（DCGM）",
    "fail_if.checked": "perfzero: --fail-if {condition}：{outcome}。{text}",
    "fail_if.holds": "成立",
    "fail_if.does not hold": "不成立",
    "fail_if.cannot be told": "无法判断",
    "export.program": "程序",
    "export.look": "对进程 {pid} 的深入观察",
    "export.stacks": "调用栈",
    "export.judging": "判断",
    "export.exporting": "perfzero: 正在导出，{what}",
    "top.without": "没有 GPU：perfzero top --replay DIR，或 perfzero demo",
    "fail_if.no_condition": (
        '--fail-if {typed} 不是条件。\n它要给出指标、< 或 > 以及数字：--fail-if "throughput < -2%" 或 '
        '"step_time > 120ms"'
    ),
    "fail_if.near": "是不是指 {near}？",
    "fail_if.no_metric": "--fail-if 不认识指标 {metric}。{hint}\n有的是：{names}",
    "fail_if.is_share": (
        '--fail-if {typed}：{metric} 是时间占比，其变化以百分点计。\n请这样写：--fail-if "{name} {sign} '
        '{number} points"'
    ),
    "fail_if.no_share": (
        '--fail-if {typed}：{metric} 不是时间占比，没有百分点。\n请这样写：--fail-if "{name} {sign} '
        '{number}%"'
    ),
    "fail_if.never": (
        "--fail-if {typed}：不带 % 或 points 的数字是值本身，而 {metric} 不会低于 0。\n要看它的变化："
        '--fail-if "{like}"'
    ),
    "fail_if.no_change": (
        '--fail-if {typed}：{metric} 的变化用百分比表示没有意义。\n可以问它的值：--fail-if "{name} > 80C"'
    ),
    "fail_if.was_none": "{metric} 在 {first} 中为零，谈不上占比",
    "fail_if.unknown_of_what": (
        '--fail-if-unknown 针对的是条件，而这里一个也没有。\n请同时给出一个：--fail-if "throughput < -2%"'
    ),
    "main.unwritten": "无法写出输出：{why}。",
    "fail_if.plain_number": "纯数字",
    "fail_if.no_unit": (
        "--fail-if {typed}：{metric} 没有单位 {unit}。\n它的值可用 {units}；它的变化用 {change}。"
    ),
    "fail_if.seen_nowhere": "{metric} 在所有录制中都没有看到",
    "fail_if.not_in_both": "{metric} 没有同时在 {first} 和 {last} 中看到",
    "fail_if.points": "{value} 个百分点",
    "fail_if.span": "{low} 到 {high}",
    "fail_if.no_interval": "没有区间",
    "fail_if.change": "{last} 与 {first} 相比的 {metric}：{share}（{span}）",
    "fail_if.no_difference": "{change}，没有真正的差别",
    "fail_if.not_in_last": "{metric} 在最后一次录制中没有看到",
    "fail_if.is": "{metric} 为 {value}",
    "fail_if.is_between": "{is_so}（{low} 到 {high}）",
    "usage.every_sample": "--every-sample 用于 Perfetto：{kind} 本来就含每个采样。\n请去掉它。",
    "export.not_written": (
        "{to} 写不了：{why}。那里什么也没有留下。\n请腾出空间，或写到别处：perfzero export {path} "
        "--format {kind} -o OUT"
    ),
    "export.perfetto": "{to}：{size}，{slices} 个切片和 {values} 个计数器值。",
    "export.merged": (
        "一个值最多代表 {merged} 个采样（细采样中为 {bursts} 个），以便浏览器能打开；--every-sample "
        "则不合并。"
    ),
    "export.open": "请在 ui.perfetto.dev 打开；它只留在你的机器上。",
    "export.files": "{to}：{files} 个文件，{size} MB。",
    "export.link": "{to} 是链接，而链接不会被跟随。\n请用 -o 给出它所指的位置。",
    "export.strange": (
        "{to} 里有 {strange}，它不是导出的一部分，而不是 perfzero 写的东西从不删除。\n请用 -o 换一个文件夹。"
    ),
    "export.is_folder": "{to} 是文件夹，而 {kind} 要写到文件里。\n请用 -o 给出一个文件。",
    "export.taken": (
        "{to} 已经存在，而且不属于这次录制。\n什么也没有写。请用 -o 换一个位置，或覆盖它：--force"
    ),
    "export.not_ours": (
        "{to} 已经存在，而且不是 `perfzero export` 写的；--force 也不会替换它。\n请用 -o 换一个位置。"
    ),
    "export.own_file": (
        "{to} 是 {folder} 中那次录制的文件，或会被当作它的文件；导出从不写到那里。\n请用 -o 换一个位置。"
    ),
    "export.no_file": (
        "{to} 既不是文件也不是文件夹，而 {kind} 要完整地写到一个文件里。\n请用 -o 给出一个文件。"
    ),
    "export.no_folder": "{to} 不是文件夹，而 {kind} 要写到文件夹里。\n请用 -o 给出一个文件夹。",
    "export.unreadable": "{to} 已经存在，但读不了：{why}。\n什么也没有写。请用 -o 换一个位置。",
    "usage.gpu_or_replay": "要么是这台机器的 GPU（--gpu），要么是一次录制（--replay），不能两者都要。",
    "sets.unusable": (
        "已核对的指标集表不能用：{why}。\n它是 perfzero 的一部分，所以这个安装不完整。请重新安装 perfzero。"
    ),
}
