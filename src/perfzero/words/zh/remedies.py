"""Remedies: what to try, what has to hold first, and how to see that it worked."""

from __future__ import annotations

from collections.abc import Mapping

REMEDIES: Mapping[str, str] = {
    "worked.active_up": "gr_active 上升，空闲时间占比下降。",
    "try.unblock": "取消设置 CUDA_LAUNCH_BLOCKING。",
    "need.bug_found": "当初为之设置它的问题已经找到",
    "worked.launches_and_active_up": "launches_per_s 和 gr_active 上升。",
    "try.unset_tf32_override": "取消设置 NVIDIA_TF32_OVERRIDE：它为 0 时，程序的任何设置都不能启用 TF32。",
    "worked.tensor_up_fma_down": "tensor_active 上升，fma_active 下降。",
    "try.end_tracer": "结束监视程序的工具，或者在没有它时测量。",
    "try.without_leftovers": "去掉调试时留下的设置再启动程序，并比较。",
    "try.raise_quota": "提高容器的 CPU 配额。",
    "try.local_disk": "把数据放在本地磁盘上，存成少数几个大文件并顺序读取。",
    "need.data_fits": "数据集放得下",
    "worked.io_down_active_up": "host_io_wait 下降，gr_active 上升。",
    "try.more_workers": "增大 num_workers，并设置 persistent_workers=True 和 prefetch_factor。",
    "try.less_per_sample": (
        "减少每个样本在 CPU 上的处理：存储解码好或缩放好的数据，或在 GPU 上解码（DALI、nvImageCodec）。"
    ),
    "worked.workers_down_active_up": "host_worker_cpu 下降，gr_active 上升。",
    "try.fused_optimizer_step": (
        "用少数几个内核更新全部参数：融合优化器（torch.optim.Adam(..., fused=True)）。"
    ),
    "try.fewer_groups": "把学习率和权重衰减相同的参数放进优化器的同一个参数组：它已融合，但逐组更新。",
    "need.optimizer_launches": "大量启动来自优化器",
    "worked.launches_down_active_up": "launches_per_s 下降，gr_active 上升。",
    "try.graph": '把一步录制成 CUDA 图：torch.compile(mode="reduce-overhead") 或 torch.cuda.graph。',
    "need.fixed_shapes": "形状不变",
    "need.no_read_back": "一步之内不向主机读回数据",
    "worked.launches_up_host_down": "launches_per_s 和 gr_active 上升，host_main_cpu 下降。",
    "try.launch_less": "减少启动次数：torch.compile，以及融合优化器（fused=True）。",
    "worked.kernels_longer": "mean_kernel_s 上升。",
    "try.larger_batch": "增大批大小（batch size）。",
    "need.result_independent": "结果与它无关",
    "try.read_less": "不要每步都读回结果：.item()、.cpu()、print(loss)、bool(tensor) 都会等 GPU。",
    "worked.sync_debug": 'gr_active 上升；torch.cuda.set_sync_debug_mode("warn") 会指出是哪些行。',
    "try.no_host_functions": "不要让主机端插进流里：内核之间不要有 cudaLaunchHostFunc 或流回调。",
    "need.has_one": "确实有",
    "worked.semaphore_down": "gr_active 为 0 时的 queue_semaphore 下降，gr_active 上升。",
    "try.see_streams": (
        "看清哪个流在等哪个流：对几步运行 nsys profile --trace=cuda,osrt；然后减少等待（用 wait_event "
        "代替 wait_stream），或让被等的工作更早开始。"
    ),
    "try.checkpoint_thread": (
        "用另一个线程保存检查点：把状态拷到锁页内存，再写出（torch.distributed.checkpoint.async_save "
        "两者都做）。"
    ),
    "need.checkpoints": "停顿来自检查点",
    "worked.stalls_vanish": "timeline.csv 中的停顿消失，step_s 不变。",
    "try.freeze_gc": "预热后冻结垃圾回收：gc.collect(); gc.freeze(); gc.disable()。",
    "need.collects_itself": "程序很少产生循环引用，或者在停顿无妨的地方调用 gc.collect()",
    "need.gc_stalls": "停顿长百分之几秒到十分之几秒，每隔若干步出现一次",
    "try.log_less": "减少评估和写日志的频率，或放到训练之外：用另一块 GPU、另一个进程。",
    "worked.stalls_rarer": "timeline.csv 中的停顿变少。",
    "try.own_cores": "给程序独占的核心：其他程序让它的主线程等待。",
    "try.see_main_thread": "看看 GPU 空闲时主线程在做什么：多次运行 py-spy dump --pid PID。",
    "try.pinned": "从锁页内存拷贝：DataLoader(pin_memory=True) 和 .to(device, non_blocking=True)。",
    "need.made_on_host": "拷贝的是主机上生成的输入",
    "worked.copies_faster": "拷贝时的速率升到链路的水平；拷贝时间占比下降。",
    "try.copy_uint8": "减少拷贝量：传 uint8，到 GPU 上再转换。",
    "worked.rx_down": "pcie_rx_bytes_per_s 下降。",
    "try.overlap_copies": "让拷贝与计算重叠：计算当前批时，在另一个流里拷贝下一批。",
    "need.source_pinned": "源数据在锁页内存中",
    "worked.copy_time_down": "拷贝时间占比下降，pcie_rx_bytes_per_s 不变。",
    "try.copy_less": "减少拷贝量：把反复使用的数据留在 GPU 上，传 uint8 或 bfloat16。",
    "try.keep_on_device": "把内核用到的数据放在显存里；放不下的，在用到之前拷进去。",
    "worked.rx_down_dram_up": "pcie_rx_bytes_per_s 下降，dram_read_bytes_per_s 上升。",
    "try.prefetch_unified": "在内核使用统一内存之前预取：cudaMemPrefetchAsync。",
    "need.unified": "用的是统一内存（cudaMallocManaged）",
    "worked.ce_up_rx_down": "ce_active 短暂上升，之后 pcie_rx_bytes_per_s 下降。",
    "try.fused_or_8bit_optimizer": "使用融合优化器（fused=True），或以 8 位保存状态的优化器。",
    "need.training": "这是训练",
    "worked.writes_down": "dram_write_bytes_per_s 下降。",
    "try.drop_gradients": "丢弃梯度而不是清零：zero_grad(set_to_none=True)。",
    "need.clears_gradients": "这是训练，且现在用清零的方式",
    "try.no_fills": "避免填充：会被整个覆盖的地方用 torch.empty 代替 torch.zeros。",
    "try.fuse_elementwise": "融合逐元素运算，使中间结果不必写入显存：torch.compile。",
    "worked.bytes_down": "每步访存量（dram_read_bytes_per_s × 步时间）下降。",
    "try.bf16_activations": "用 bfloat16 保存激活值：torch.autocast。",
    "need.float32_now": "现在是 float32",
    "worked.bytes_halved": "每步访存量最多减半。",
    "try.fused_attention": "使用融合注意力内核：torch.nn.functional.scaled_dot_product_attention。",
    "need.stepwise_attention": "注意力分数是逐步算出来的",
    "worked.bytes_down_tensor_up": "每步访存量下降，tensor_active 上升。",
    "try.larger_tiles": "数据进入共享内存或寄存器后多用几次：加大每个线程块的分块。",
    "need.own_or_autotuned": "内核是自己写的，或可以自动调优",
    "worked.sectors_down": "同样的工作量下 l2_sectors_per_s 下降。",
    "try.fuse_through_l2": "融合那些经 L2 传递结果的内核：torch.compile。",
    "worked.sectors_per_step_down": "l2_sectors_per_s × 步时间下降。",
    "try.multicast": "多个线程块都需要的数据只取一次：在 cluster 内用 TMA multicast（CUTLASS）。",
    "need.own_kernels": "内核是自己写的",
    "need.off": "现在是关闭的",
    "need.tf32_error": "可以接受每次乘法 1e-3 的相对误差",
    "try.bf16": "用 bfloat16 运行：用 torch.autocast('cuda', torch.bfloat16) 包住前向和损失。",
    "need.mixed_precision": "模型可以用混合精度训练",
    "try.fp16": "用 float16 运行：torch.autocast('cuda', torch.float16) 配合 GradScaler。",
    "try.find_float64": "找出哪些是 float64（NumPy 的默认类型），在送到 GPU 之前转成 float32。",
    "need.no_double": "不需要双精度",
    "worked.fp64_zero": "fp64_active 降到 0。",
    "try.whole_waves": "选择能填满整数个 wave 的尺寸：按内核分块计，块数为 SM 数目的倍数。",
    "need.products": "内核是矩阵乘",
    "worked.sm_up": "sm_active 上升。",
    "try.second_stream": "把独立的工作放到第二个流：填满空出来的 SM。",
    "try.channels_last": "模型和输入改用 channels-last（通道在后）：.to(memory_format=torch.channels_last)。",
    "need.convolutional": "这是在 autocast 下运行的卷积网络",
    "worked.tensor_up_bytes_down": "tensor_active 上升，每步访存量下降。",
    "try.align": "让矩阵维度是 8 的倍数（16 位类型），最好是 64 的倍数。",
    "need.some_unaligned": "有些不是",
    "worked.tensor_up": "tensor_active 上升。",
    "try.use_tensor_cores": "让所有乘法都用上张量核心：用 16 位类型或 TF32，用矩阵而不是向量，分组要少。",
    "need.some_miss": "有些没有用上",
    "try.fuse_between_products": "融合矩阵乘之间的运算：torch.compile、scaled_dot_product_attention。",
    "need.reads_weights": "读的是权重，而不是每个请求各自的缓存",
    "worked.dram_same": "每秒请求数增加而 dram_read_bytes_per_s 不变。",
    "need.latency_may_grow": "单个请求的延迟可以变长",
    "try.side_by_side": "并行运行独立的工作：多个流，或在 MPS 下多个进程。",
    "need.independent_work": "有独立的工作",
    "need.work_for_all": "内核有足够分给所有 SM 的独立工作，而不是一串先后相依的步骤",
    "try.split_kernels": "使用切分长维度的内核（split-K、split-KV），或融合小内核：torch.compile。",
    "try.nsight_compute": "找出耗时的内核，用 Nsight Compute 看其中一个：停滞、占用率、访存模式。",
    "worked.towards_roof": "某种资源向其屋顶靠近。",
    "try.index_select": (
        "用 index_select 或 embedding 取行，而不用 x[index]："
        "它们的梯度以原子加法累加，x[index] 则对相同的索引逐个累加。"
    ),
    "need.sums_may_round": "每次运行时求和结果的末几位可以不同",
    "try.broadcast_distances": ("用广播相减再求和代替 p=1 的 cdist：(a[:, None] - b).abs().sum(-1)。"),
    "need.differences_fit": "所有点对的差能放进显存",
    "try.compiler": "让编译器融合并重新分块：torch.compile。",
    "worked.latency_down": "延迟占比下降。",
    "try.overlap_backward": "让通信与反向传播重叠：加大 DDP 的 bucket，或在 FSDP 中预取。",
    "worked.communication_down_at_rate": "nvlink_rx_bytes_per_s 不变时，通信占比下降。",
    "try.accumulate": "减少通信次数：梯度累积。",
    "need.larger_effective_batch": "可以接受更大的有效批大小",
    "worked.communication_down": "通信占比下降。",
    "try.raise_power": "问运维人员能否提高板卡的功耗上限；程序本身没有问题。",
    "worked.clock_up": "gpc_clock 上升。",
    "try.cooling": "请人检查散热：风扇、风道、灰尘、进风温度。",
    "worked.thermal_zero": "capped_thermal 降到 0。",
    "try.own_gpu": "让每个程序独占一块 GPU，或在 MPS 下运行。",
    "worked.ctxsw_zero": "ctxsw 降到 0。",
    "try.reseat": "请人重新插紧板卡，或检查插槽和转接卡。",
    "worked.link_full": "pcie_generation 和 pcie_width 达到最大值。",
    "try.tile_order": "调整分块的次序，让同时运行的分块共用行和列（按行分组、swizzle），或加大分块。",
    "need.read_again": "矩阵乘把矩阵读了好几遍",
    "try.more_under_way": (
        "让每个 SM 上同时有更多工作：每个线程块更多 warp、更大的分块、更多级流水，或切分长维度"
        "（split-K、split-KV）以增加线程块。"
    ),
    "worked.warps_up": "warps_active 上升，某种资源向其屋顶靠近。",
    "try.by_channel": (
        "用 16 位和 channels-last（通道在后）计算，cuDNN 对此有逐通道卷积的内核："
        "torch.autocast 与 .to(memory_format=torch.channels_last)。"
    ),
    "try.time_algorithms": "让 cuDNN 实测各种算法：torch.backends.cudnn.benchmark = True。",
    "try.no_timing": (
        "不要让 cuDNN 为每个新尺寸实测各种算法：torch.backends.cudnn.benchmark = False，"
        "或只用少数几种固定尺寸。"
    ),
    "need.benchmark_on": "这是开启了 cudnn.benchmark 的卷积网络，且尺寸会变",
    "try.fixed_size": (
        "让结果的大小固定，否则主机端必须等它：用 torch.where(mask, x, 0) 和按掩码加权的求和代替 x[mask]，"
        "one_hot(x, num_classes)，repeat_interleave(output_size=...)，nonzero_static(size=...)，"
        "用 index_add_ 代替 bincount。"
    ),
    "try.decide_on_gpu": (
        "在 GPU 上做判断：用 torch.where 代替 if，用 torch._assert_async 代替 assert；"
        "或者每隔若干步才看一次这样的值。"
    ),
    "try.keep_answer": (
        "把答案留在 GPU 上：用 (a == b).all() 或 torch.isclose(a, b).all() "
        "代替 torch.equal 和 torch.allclose，每隔若干步读一次。"
    ),
    "try.unchecked": (
        "分解时不去检查是否成功：torch.linalg.inv_ex、cholesky_ex、solve_ex、lu_factor_ex、ldl_factor_ex。"
    ),
    "need.has_unchecked": "所用的是 inv、cholesky、solve、lu_factor 或 ldl_factor；其他的没有这种版本",
    "try.collect_rarely": (
        "把 gc.collect() 移出循环，或隔几百步才调用一次：新对象多时 Python 的垃圾回收会自己运行。"
    ),
    "try.leave_out_wait": "去掉这里对 GPU 的等待，它并不读回结果；用事件计时，隔若干步再读取。",
    "need.only_a_clock": "只有计时需要它",
    "try.factor_on_gpu": (
        "把系数留在 GPU 上：用 x + a * y 代替 torch.add(x, y, alpha=a)，后者会读回张量 a。"
    ),
    "try.hold_memory": (
        "保留显存并重复使用：打开缓存分配器（不要 caching_allocator_enable(False)，"
        "不要 PYTORCH_NO_CUDA_MEMORY_CACHING），步内不要 empty_cache()；显存快满时用 "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True。cudaFree 会等 GPU。"
    ),
    "try.keep_cache": (
        "不要动分配器的缓存：循环里不要 empty_cache()，也不要读取其统计。它留下的显存会再次使用，还给 CUDA "
        "则要等 GPU。"
    ),
    "try.one_thread": (
        "每个工作进程只用一个线程：在工作进程启动前设置 OMP_NUM_THREADS=1、OPENBLAS_NUM_THREADS=1 和 "
        "MKL_NUM_THREADS=1。"
    ),
    "need.threads_crowd": "工作进程数 × 各自的线程数（NumPy 和 OpenMP 默认占用全部核心）超过核心数",
    "worked.runqueue_down": "host_runqueue_wait 下降，gr_active 上升。",
    "try.keep_in_memory": "读过一次的数据留在内存里。",
    "need.memory_holds_it": "内存放得下，且会再次读取",
    "try.compute_on_gpu": (
        "把此时由 CPU 计算的内容放到 GPU 上算：留在主机内存里的层、.cpu() 之后的算子、创建时没有写 device= "
        "的张量；放不下的用更窄的类型。"
    ),
    "need.gpu_can": "这些工作 GPU 能做",
    "need.threads_compute": "这些线程确实在计算，而不只是空转等待：设 OMP_NUM_THREADS=1 时程序变慢",
    "worked.tree_down_active_up": "host_tree_cpu 降到一个核心，gr_active 上升。",
    "try.keep_workers": (
        "工作进程只启动一次，而不是每个 epoch 都启动：DataLoader(persistent_workers=True)，各 epoch "
        "共用一个迭代器。"
    ),
    "need.epochs_start_workers": "停顿出现在每个 epoch 的开头",
    "try.exchange_less": "来回拷贝的数据少拷几次：梯度每个优化器步交换一次，而不是每批一次。",
    "need.goes_and_returns": "不必每次都是最新的",
    "worked.rx_tx_down": "pcie_rx_bytes_per_s 和 pcie_tx_bytes_per_s 下降。",
    "try.tokenise_before": "训练之前一次分好词，保存编号。",
    "need.texts_again": "文本会用到不止一次",
    "try.index_batch": (
        "一次取出整批：用 x[indices]，而不是逐个取样本再拼起来（DataLoader(sampler=BatchSampler(...), "
        "batch_size=None)，或在数据集中实现 __getitems__）。"
    ),
    "try.stop_compiling": (
        "不要反复编译：会变的数值用张量（lr=torch.tensor(...)），长度补齐到少数几种，或 dynamic=True；"
        "TORCH_LOGS=recompiles 会说明原因。"
    ),
    "try.copy_without_waiting": (
        "不要等待到 GPU 的拷贝：反复使用的数据留在 GPU 上，其余的从锁页内存以 non_blocking=True 拷贝。"
    ),
    "try.copy_without_waiting.other": (
        "不要等待到 GPU 的拷贝：反复使用的数据留在 GPU 上，其余的从锁页内存异步拷贝。"
    ),
    "try.no_checks": (
        "去掉调试时留下的检查：torch.autograd.set_detect_anomaly，或逐个检查 NaN。每次检查都要等待 GPU。"
    ),
    "try.overlap_line": "先启动下一步，在 GPU 计算它的同时，用上一步的结果做这件事。",
    "need.next_step_independent": "下一步不依赖它",
    "try.tf32": '启用 TF32：torch.set_float32_matmul_precision("high")。',
    "try.tf32_convolutions": "在卷积中启用 TF32：torch.backends.cudnn.allow_tf32 = True。",
    "try.tf32_both": (
        '启用 TF32：torch.set_float32_matmul_precision("high")，卷积则用 torch.backends.cudnn.allow_tf32 '
        "= True。"
    ),
    "try.tf32.cupy": "启用 TF32：以 CUPY_TF32=1 启动程序。",
    "try.tf32.jax": '启用 TF32：jax.config.update("jax_default_matmul_precision", "tensorfloat32")。',
    "try.tf32.other": "在做矩阵乘的地方启用 TF32（cuBLAS：CUBLAS_TF32_TENSOR_OP_MATH）。",
    "try.fp16.cupy": "用 float16 运行：cupy.float16 数组的乘法会用张量核心。",
    "try.bf16.jax": "用 bfloat16 运行：用 .astype(jax.numpy.bfloat16) 转换参数和输入。",
    "try.bf16.other": "用 16 位类型运行。",
    "try.fp16.jax": "用 float16 运行：用 .astype(jax.numpy.float16) 转换参数和输入，并缩放损失。",
    "try.fp16.other": "用 float16 运行。",
    "need.mixed_precision.other": "16 位精度足够",
    "try.bf16_activations.cupy": "内核之间的数组用 cupy.float16 保存。",
    "try.bf16_activations.other": "用 bfloat16 保存激活值。",
    "try.fuse_elementwise.cupy": "融合逐元素运算，使中间结果不必写入显存：cupy.fuse。",
    "try.fuse_elementwise.jax": "融合逐元素运算，使中间结果不必写入显存：用一个 jax.jit。",
    "try.fuse_elementwise.other": "融合逐元素运算，使中间结果不必写入显存。",
    "try.fused_attention.jax": '使用融合注意力内核：jax.nn.dot_product_attention(implementation="cudnn")。',
    "try.fused_attention.other": "使用融合注意力内核。",
    "try.no_fills.cupy": "避免填充：会被整个覆盖的地方用 cupy.empty 代替 cupy.zeros。",
    "try.no_fills.other": "会被整个覆盖的地方避免填充。",
    "try.drop_gradients.other": "丢弃梯度而不是清零。",
    "try.fused_or_8bit_optimizer.other": "使用融合优化器，或以 8 位保存状态的优化器。",
    "try.fuse_through_l2.other": "融合那些经 L2 传递结果的内核。",
    "try.channels_last.other": "模型和输入改用 channels-last（通道在后）。",
    "need.convolutional.other": "这是使用 16 位类型的卷积网络",
    "try.fuse_between_products.other": "融合矩阵乘之间的运算。",
    "try.split_kernels.compiled": "使用切分长维度的内核（split-K、split-KV）：行数少的矩阵乘有这样的内核。",
    "try.split_kernels.other": "使用切分长维度的内核（split-K、split-KV），或融合小内核。",
    "try.compiler.other": "让编译器融合并重新分块。",
    "try.fused_optimizer_step.jax": "用少数几个内核更新全部参数：把优化器的一步放进 jax.jit。",
    "try.fused_optimizer_step.other": "用少数几个内核更新全部参数：融合优化器。",
    "try.graph.cupy": "把一步录制成 CUDA 图：cupy.cuda.Stream 的 begin_capture 和 end_capture。",
    "try.graph.jax": "把一步录制成 CUDA 图：在一个 jax.jit 之内 XLA 会这样做。",
    "try.graph.other": "把一步录制成 CUDA 图。",
    "try.launch_less.cupy": "减少启动次数：cupy.fuse，或一次做完全部运算的 cupy.ElementwiseKernel。",
    "try.launch_less.jax": "减少启动次数：把整步放进一个 jax.jit。",
    "try.launch_less.other": "减少启动次数：把小内核融合成大内核。",
    "try.launch_less_there": (
        '减少启动次数：CUDA 图（torch.compile(mode="reduce-overhead")）、融合优化器，或更大的批。'
    ),
    "try.launch_less_there.cupy": "减少启动次数：cupy.fuse、CUDA 图，或更大的数组。",
    "try.launch_less_there.jax": "减少启动次数：把整步放进一个 jax.jit，或更大的批。",
    "try.launch_less_there.other": "减少启动次数：CUDA 图、融合内核，或更大的批。",
    "try.read_less.cupy": "不要每步都读回结果：.item()、.get()、print(x)、bool(x) 都会等 GPU。",
    "try.read_less.jax": (
        "不要每步都读回结果：float(x)、numpy.asarray(x)、print(x)、bool(x)、block_until_ready 都会等 GPU。"
    ),
    "try.read_less.other": "不要每步都读回结果：那时主机端会等 GPU。",
    "worked.active_rises": "gr_active 上升。",
    "try.see_streams.other": (
        "看清哪个流在等哪个流：对几步运行 nsys profile --trace=cuda,osrt；然后减少等待（等事件而不是等流"
        "），或让被等的工作更早开始。"
    ),
    "try.checkpoint_thread.other": "用另一个线程保存检查点：把状态拷到锁页内存，再写出。",
    "try.pinned.cupy": "在另一个流里从锁页内存（cupyx.empty_pinned）拷贝。",
    "try.pinned.other": "从锁页内存异步拷贝。",
    "try.more_workers.other": "给数据加载更多常驻的工作进程，并让它提前读取。",
    "try.less_in_loader": "减少 DataLoader 里每个样本的处理，或给它更多工作进程。",
    "try.less_in_loader.other": "减少数据加载时每个样本的处理，或给它更多工作进程。",
    "try.overlap_backward.other": "让通信与计算重叠。",
    "try.read_less_there": "不要每步都读回结果。",
    "try.other_process": "把那个线程的工作放到另一个进程：它占着 GIL。",
    "try.less_at_line": "减少程序中某一行的工作，或放到另一个线程或进程去做。",
    "try.compute_on_gpu.other": (
        "把此时由 CPU 计算的内容放到 GPU 上算，数组也留在那里；放不下的用更窄的类型。"
    ),
    "try.keep_workers.other": "工作进程只启动一次，而不是每个 epoch 都启动。",
    "try.index_batch.other": "一次取出整批：用 x[indices]，而不是逐个取样本再拼起来。",
    "try.stop_compiling.jax": (
        "不要反复编译：长度补齐到少数几种，会变的数值用数组而不是静态参数；"
        'jax.config.update("jax_log_compiles", True) 会指出编译了什么。'
    ),
    "try.stop_compiling.other": "不要反复编译：长度补齐到少数几种，会变的数值作为参数传入。",
    "try.no_timing.other": "只用少数几种固定尺寸，使每种尺寸的内核只需选择一次。",
    "need.benchmark_on.other": "每个尺寸都要重新选择内核，且尺寸会变",
    "try.fixed_size.other": (
        "让结果的大小固定，否则主机端必须等它：用 where(mask, x, 0) 和按掩码加权的求和代替 x[mask]。"
    ),
    "try.decide_on_gpu.other": "在 GPU 上做判断：用 where 代替 if；或者每隔若干步才看一次这样的值。",
    "try.keep_answer.other": "把答案留在 GPU 上，每隔若干步读一次。",
    "try.unchecked.other": "分解时不必每次都检查是否成功。",
    "need.has_unchecked.other": "所用的库允许这样",
    "try.factor_on_gpu.other": "把系数留在 GPU 上：乘以数组，而不是乘以一个数。",
    "try.keep_cache.other": "保留显存并重复使用：还给 CUDA 要等 GPU。",
}
