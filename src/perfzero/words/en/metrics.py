"""Metrics: what counters and their units mean, and what there is to say of the names that people bring."""

from __future__ import annotations

from collections.abc import Mapping

METRICS: Mapping[str, str] = {
    "counter.gr_active": (
        "Share of time in which the graphics/compute engine had work, of however few blocks."
    ),
    "counter.sm_active": (
        "Share of SM cycles with at least one warp resident, averaged over all SMs. Stalled warps count."
    ),
    "counter.tensor_active": "Share of cycles in which the tensor pipes worked, averaged over all SMs.",
    "counter.dram_read_bytes": "Bytes read from device memory.",
    "counter.dram_write_bytes": "Bytes written to device memory.",
    "counter.gpc_clock": "Measured clock of the GPCs, and so of the SMs.",
    "counter.launches": (
        "Kernels dispatched, those inside CUDA graphs included; can be unknown while samples are read out."
    ),
    "counter.fma_active": (
        "Issue rate of the FMA pipe as a share of its peak: FP32, and what it does of integers and FP16."
    ),
    "counter.pcie_rx_bytes": (
        "Bytes the GPU received over PCIe, protocol included (host to device, and reads of host memory)."
    ),
    "counter.pcie_tx_bytes": (
        "Bytes the GPU sent over PCIe, protocol included. The sampler's own records are taken off."
    ),
    "counter.sm_issue": "Warp instructions issued as a share of the issue peak (4 per cycle and SM).",
    "counter.warps_active": "Compute warps in flight as a share of the warp slots (occupancy over time).",
    "counter.l2_sectors": "Sectors of 32 bytes that the SMs asked of the L2.",
    "counter.l2_hit_sectors": "Sectors of 32 bytes that the SMs asked of the L2 and found there.",
    "counter.l2_hit": "Share of the SMs' sectors found in the L2.",
    "counter.ce_active": "Share of time in which the asynchronous copy engine moved data.",
    "counter.queue_empty": (
        "Share of time in which the front end's queue was empty: the host had submitted nothing."
    ),
    "counter.queue_semaphore": (
        "Share of time in which the front end waited for a semaphore: another stream, engine or GPU."
    ),
    "counter.nvlink_rx_bytes": "Bytes received over NVLink.",
    "counter.nvlink_tx_bytes": "Bytes sent over NVLink.",
    "counter.fp64_active": "Use of the FP64 pipe as a share of its peak.",
    "counter.queue_wfi": "Share of time in which the front end waited for the engine to become idle.",
    "counter.ctxsw": "Share of time spent switching between contexts of different processes.",
    "counter.sys_clock": (
        "Measured clock of the SYS domain, by which chips without a time trigger are sampled."
    ),
    "counter.tensor_fp_active": (
        "Share of cycles in which the tensor pipes worked on floating point (FP16, BF16, TF32, FP8)."
    ),
    "counter.ctas": "Thread blocks launched; with `launches` the size of the grids.",
    "counter.alu_active": "Issue rate of the integer and logic pipe as a share of its peak.",
    "counter.tensor_int_active": (
        "Share of cycles in which the tensor pipes worked on integers (INT8, INT4)."
    ),
    "counter.tensor_fp64_active": "Share of cycles in which the tensor pipes worked on FP64.",
    "counter.c2c_rx_bytes": "Bytes received over the chip-to-chip link to a Grace CPU.",
    "counter.c2c_tx_bytes": "Bytes sent over the chip-to-chip link to a Grace CPU.",
    "counter.fp16_active": "Use of the FP16 pipe outside the tensor cores as a share of its peak.",
    "counter.fp32_active": (
        "FP32 arithmetic as a share of the FMA pipe's peak, without what else that pipe does."
    ),
    "counter.dram_active": (
        "Use of device memory as a share of its peak, where bytes are not to be had (GPM, CUDA 12.6)."
    ),
    "counter.sm_clock": "SM clock as NVML reports it.",
    "counter.memory_clock": "Memory clock as NVML reports it.",
    "counter.power": "Board power.",
    "counter.energy": "Energy the board took during the sample: its mean power times the time.",
    "counter.temperature": "GPU temperature.",
    "counter.capped_power": "Share of readings with the event reason 'software power cap'.",
    "counter.capped_thermal": "Share of readings with a thermal slowdown reason.",
    "counter.capped_hardware": "Share of readings with a hardware slowdown or power brake.",
    "counter.memory_used": "Device memory in use.",
    "counter.pcie_generation": "PCIe generation the link runs at now.",
    "counter.pcie_width": "PCIe lanes in use now.",
    "counter.smi_utilization": "What nvidia-smi calls GPU utilisation: some kernel was running.",
    "counter.ecc_uncorrected": "Uncorrected ECC errors since the driver was loaded.",
    "counter.processes": "Compute processes that hold a context on this GPU.",
    "counter.host_main_cpu": "CPU use of the busiest thread of the process that feeds the GPU, in cores.",
    "counter.host_tree_cpu": "CPU use of the whole observed process tree, in cores.",
    "counter.host_processes": "Processes in the observed tree.",
    "counter.host_workers": (
        "Child processes of the main one that use CPU (data-loader workers and their like)."
    ),
    "counter.host_worker_cpu": "Mean CPU use of those workers, each in cores.",
    "counter.host_runqueue_wait": ("Time the tree's main threads were runnable but had no core, as a share."),
    "counter.host_io_wait": "Time the tree's main threads were blocked on a disk, as a share.",
    "counter.host_major_faults": "Page faults that needed a disk.",
    "counter.host_throttled": "Share of time in which the cgroup's CPU quota held the tree back.",
    "counter.host_disk_read_bytes": "Bytes the tree read from disks.",
    "counter.host_disk_write_bytes": "Bytes the tree wrote to disks.",
    "counter.host_net_bytes": "Bytes the machine moved over its network interfaces, loopback left out.",
    "counter.host_swap_bytes": "Swap used by the tree.",
    "counter.host_cpu_busy": "CPU use of the whole machine as a share of its cores.",
    "unit.ratio": "ratio",
    "unit.bytes": "bytes",
    "unit.count": "count",
    "unit.hertz": "hertz",
    "unit.watts": "watts",
    "unit.celsius": "celsius",
    "unit.joules": "joules",
    "unit.seconds": "seconds",
    "unit.generation": "generation",
    "unit.lanes": "lanes",
    "kind.level": "level",
    "kind.total": "total",
    "metrics.none": "{asked}: no counter",
    "metrics.row": "{name}: {told}",
    "metrics.one_pass": "{chip} with libcupti {version}: {count} counters in one pass",
    "sets.l2_hit": "l2_hit_sectors says more",
    "sets.dram_active": "dram_read_bytes says more",
    "sets.unknown": "unknown to this library and chip",
    "sets.passes": "needs {passes} passes with the rest",
    "sets.unavailable": "not available on this board (error {code})",
    "sets.no_metric": "has no CUPTI metric",
    "sets.sys_clock": "only needed where the SYS clock triggers the samples",
    "alias.smi": (
        "nvidia-smi counts the time in which some kernel was running, however small, waits for memory "
        "included; sm_active and tensor_active say what worked."
    ),
    "alias.mem_copy": (
        "The share of time in which memory was accessed at all, not of its bandwidth: see "
        "dram_read_bytes, dram_write_bytes and dram_active."
    ),
    "alias.sass": (
        "A count that needs the kernels patched (SASS instrumentation), so it cannot be sampled; the "
        "use of the pipe answers what it is asked for."
    ),
    "alias.flop": "FLOP are fadd + fmul + 2 x ffma, and nearly all arithmetic of deep learning is ffma.",
    "alias.no_such": "No chip from Turing to Rubin has a metric of this name.",
    "alias.no_such_meant": "No chip from Turing to Rubin has a metric of this name; meant is {name}.",
    "alias.no_such_pcie": (
        "No chip from Turing to Rubin has a metric of this name; see pcie_rx_bytes and pcie_tx_bytes."
    ),
    "alias.no_such_tensor": (
        "No chip from Turing to Rubin has a metric of this name; instruction counts of tensor cores do "
        "not compare across chips, the cycles of the pipe do."
    ),
    "alias.no_such_l1": (
        "No chip from Turing to Rubin has a metric of this name; meant is l1tex__t_sectors, which is "
        "not sampled. What leaves the L1 is l2_sectors."
    ),
    "alias.refused_l1": "PM sampling refuses it. What leaves the L1 is l2_sectors.",
    "alias.l2_operations": (
        "PM sampling refuses the name on most chips; the SMs' sectors of all operations are sampled "
        "instead. Many sectors per byte of DRAM are a good sign."
    ),
    "alias.l2_divided": (
        "On chips with a divided L2 it also counts the traffic between the halves; l2_sectors does not."
    ),
    "alias.sector": "32 bytes a sector.",
    "alias.l2_two_passes": "Needs two passes; l2_hit is the rate that fits the single pass.",
    "alias.bit": "One bit of the clock event reasons; here the share of readings in which it was set.",
    "alias.legacy": "An event of Kepler to Pascal.",
    "alias.legacy_today": "An event of Kepler to Pascal; today {name}.",
    "alias.legacy_dual": "An event of Kepler to Pascal; dual issue is gone since Volta.",
    "alias.legacy_elapsed": "An event of Kepler to Pascal; as a share of the elapsed ones.",
    "alias.legacy_clock": "An event of Kepler to Pascal; cycles per second are the clock.",
    "alias.of_issue_peak": "The same instructions, as a share of the issue peak.",
    "alias.replays": "Issued and executed differ by replays only.",
    "alias.denominator": "The denominator: {counter} is already active over elapsed.",
    "alias.of_time": "The same as a share of time.",
    "alias.tensor_two_passes": (
        "Needs two passes, and on H100 counts no warp-group products; the cycles of the pipe count all."
    ),
    "alias.tensor_no_gmma": (
        "On H100 it counts no warp-group products (gmma); the cycles of the pipe count all."
    ),
    "alias.tensor_gmma": (
        "Exists on H100 only, and PM sampling refuses it there; the cycles of the pipe count all."
    ),
    "alias.cycles": "Cycles instead of instructions.",
    "alias.realtime": "Sampled in its realtime form.",
    "alias.dram_two": "Sampled as two: dram_read_bytes and dram_write_bytes.",
    "alias.dram_pm": "With PM sampling: dram_read_bytes and dram_write_bytes.",
    "alias.of_peak": "The same as a share of the peak.",
    "alias.occupancy": "Achieved occupancy over time, not the theoretical one.",
    "alias.queue": "An empty queue also means a wait for a copy: look at ce_active and gr_active first.",
    "alias.no_tlb": "No chip has a public counter of the TLB or MMU.",
    "alias.scattered": "Scattered access shows as a low l2_hit with high dram_read_bytes.",
    "alias.turing": "Turing counts both in one.",
    "alias.part": "One of four parts.",
    "alias.beside": "Beside {name}.",
    "alias.measured_clock": "gpc_clock is the measured one.",
    "alias.unknown": "perfzero knows no counter of this name.",
    "alias.dcgm": "DCGM field {field}, {name}.",
    "alias.gpm": "NVML GPM metric {metric}.",
    "alias.cupti": "CUPTI metric.",
    "alias.nsight": "Row of Nsight Systems.",
    "alias.otel": "OpenTelemetry name.",
    "alias.also": "Also: {names}.",
}
