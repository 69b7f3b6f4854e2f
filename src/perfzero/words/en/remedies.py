"""Remedies: what to try, what has to hold first, and how to see that it worked."""

from __future__ import annotations

from collections.abc import Mapping

REMEDIES: Mapping[str, str] = {
    "worked.active_up": "gr_active rises and the share of idle time falls.",
    "try.unblock": "Unset CUDA_LAUNCH_BLOCKING.",
    "need.bug_found": "the bug it was set for is found",
    "worked.launches_and_active_up": "launches_per_s and gr_active rise.",
    "try.unset_tf32_override": (
        "Unset NVIDIA_TF32_OVERRIDE: while it is 0, no setting of the program allows TF32."
    ),
    "worked.tensor_up_fma_down": "tensor_active rises, fma_active falls.",
    "try.end_tracer": "End the tool that watches the program, or measure without it.",
    "try.without_leftovers": "Start the program without what was left on for debugging, and compare.",
    "try.raise_quota": "Raise the CPU quota of the container.",
    "try.local_disk": "Keep the data on a local disk, in a few large files read in order.",
    "need.data_fits": "the data set fits",
    "worked.io_down_active_up": "host_io_wait falls, gr_active rises.",
    "try.more_workers": "Raise num_workers, set persistent_workers=True and prefetch_factor.",
    "try.less_per_sample": (
        "Do less per sample on the CPU: store decoded or resized data, or decode on the GPU (DALI, "
        "nvImageCodec)."
    ),
    "worked.workers_down_active_up": "host_worker_cpu falls, gr_active rises.",
    "try.fused_optimizer_step": (
        "Update all parameters in few kernels: a fused optimizer (torch.optim.Adam(..., fused=True))."
    ),
    "try.fewer_groups": (
        "Put parameters of the same learning rate and weight decay into one group of the optimizer: it is "
        "fused, but updates group by group."
    ),
    "need.optimizer_launches": "the optimizer makes many of the launches",
    "worked.launches_down_active_up": "launches_per_s falls, gr_active rises.",
    "try.graph": (
        'Record the step into a CUDA graph: torch.compile(mode="reduce-overhead") or torch.cuda.graph.'
    ),
    "need.fixed_shapes": "shapes do not change",
    "need.no_read_back": "no read-back to the host within the step",
    "worked.launches_up_host_down": "launches_per_s and gr_active rise, host_main_cpu falls.",
    "try.launch_less": "Launch less: torch.compile, and a fused optimizer (fused=True).",
    "worked.kernels_longer": "mean_kernel_s rises.",
    "try.larger_batch": "Raise the batch size.",
    "need.result_independent": "the result does not depend on it",
    "try.read_less": (
        "Do not read results back in every step: .item(), .cpu(), print(loss), bool(tensor) wait for the GPU."
    ),
    "worked.sync_debug": 'gr_active rises; torch.cuda.set_sync_debug_mode("warn") names the lines.',
    "try.no_host_functions": (
        "Keep the host out of the stream: no cudaLaunchHostFunc or stream callback between kernels."
    ),
    "need.has_one": "there is one",
    "worked.semaphore_down": "queue_semaphore falls while gr_active is 0, gr_active rises.",
    "try.see_streams": (
        "See which stream waits for which: nsys profile --trace=cuda,osrt for a few steps; then wait for "
        "less (wait_event instead of wait_stream), or start the awaited work earlier."
    ),
    "try.checkpoint_thread": (
        "Save checkpoints from a thread: copy the state to pinned memory, and write that "
        "(torch.distributed.checkpoint.async_save does both)."
    ),
    "need.checkpoints": "the stalls are checkpoints",
    "worked.stalls_vanish": "the stalls vanish from timeline.csv, step_s stays.",
    "try.freeze_gc": "Freeze the garbage collector after warm-up: gc.collect(); gc.freeze(); gc.disable().",
    "need.collects_itself": (
        "the program makes few cycles of objects, or calls gc.collect() where a stall does not matter"
    ),
    "need.gc_stalls": "the stalls last some hundredths to tenths of a second and come every so many steps",
    "try.log_less": (
        "Evaluate and log less often, or beside the training: on another GPU, in another process."
    ),
    "worked.stalls_rarer": "the stalls become rarer in timeline.csv.",
    "try.own_cores": "Give the program cores of its own: others keep its main thread waiting.",
    "try.see_main_thread": (
        "See what the main thread does while the GPU is idle: py-spy dump --pid PID, a few times."
    ),
    "try.pinned": "Copy from pinned memory: DataLoader(pin_memory=True) and .to(device, non_blocking=True).",
    "need.made_on_host": "the copies are inputs made on the host",
    "worked.copies_faster": "The rate while copying rises to the link's; the share of copy time falls.",
    "try.copy_uint8": "Copy less: send uint8 and convert on the GPU.",
    "worked.rx_down": "pcie_rx_bytes_per_s falls.",
    "try.overlap_copies": (
        "Overlap copies with work: copy the next batch in a stream of its own while this one is computed."
    ),
    "need.source_pinned": "the source is pinned memory",
    "worked.copy_time_down": "The share of copy time falls, pcie_rx_bytes_per_s stays.",
    "try.copy_less": "Copy less: keep reused data on the GPU, send uint8 or bfloat16.",
    "try.keep_on_device": (
        "Keep what the kernels use in device memory, and copy there what does not fit just before it is used."
    ),
    "worked.rx_down_dram_up": "pcie_rx_bytes_per_s falls, dram_read_bytes_per_s rises.",
    "try.prefetch_unified": "Prefetch unified memory before the kernel that uses it: cudaMemPrefetchAsync.",
    "need.unified": "it is unified memory (cudaMallocManaged)",
    "worked.ce_up_rx_down": "ce_active rises for a while, pcie_rx_bytes_per_s falls after it.",
    "try.fused_or_8bit_optimizer": (
        "Use a fused optimizer (fused=True), or one that keeps its state in 8 bits."
    ),
    "need.training": "it is a training",
    "worked.writes_down": "dram_write_bytes_per_s falls.",
    "try.drop_gradients": "Let gradients go instead of filling them with zeros: zero_grad(set_to_none=True).",
    "need.clears_gradients": "it is a training that clears them otherwise",
    "try.no_fills": "Avoid fills: torch.empty instead of torch.zeros where all of it is overwritten.",
    "try.fuse_elementwise": (
        "Fuse elementwise operations so that intermediate results never reach memory: torch.compile."
    ),
    "worked.bytes_down": "Bytes per step (dram_read_bytes_per_s x step time) fall.",
    "try.bf16_activations": "Keep activations in bfloat16: torch.autocast.",
    "need.float32_now": "they are in float32 now",
    "worked.bytes_halved": "Bytes per step fall by up to half.",
    "try.fused_attention": "Use a fused attention kernel: torch.nn.functional.scaled_dot_product_attention.",
    "need.stepwise_attention": "attention computes its scores one by one",
    "worked.bytes_down_tensor_up": "Bytes per step fall, tensor_active rises.",
    "try.larger_tiles": (
        "Use data more often once it is in shared memory or registers: larger tiles per block."
    ),
    "need.own_or_autotuned": "the kernels are your own, or can be autotuned",
    "worked.sectors_down": "l2_sectors_per_s falls at the same work.",
    "try.fuse_through_l2": "Fuse kernels that hand each other their results through the L2: torch.compile.",
    "worked.sectors_per_step_down": "l2_sectors_per_s x step time falls.",
    "try.multicast": (
        "Fetch what several blocks need once for all of them: TMA multicast within a cluster (CUTLASS)."
    ),
    "need.own_kernels": "the kernels are your own",
    "need.off": "it is off",
    "need.tf32_error": "a relative error of 1e-3 per product is acceptable",
    "try.bf16": "Run it in bfloat16: torch.autocast('cuda', torch.bfloat16) around forward and loss.",
    "need.mixed_precision": "the model trains in mixed precision",
    "try.fp16": "Run it in float16: torch.autocast('cuda', torch.float16) with a GradScaler.",
    "try.find_float64": (
        "Find what is float64 (NumPy's default) and make it float32 before it reaches the GPU."
    ),
    "need.no_double": "double precision is not needed",
    "worked.fp64_zero": "fp64_active falls to 0.",
    "try.whole_waves": (
        "Choose sizes that fill whole waves: a multiple of the SMs in blocks of the kernel's tile."
    ),
    "need.products": "the kernels are products",
    "worked.sm_up": "sm_active rises.",
    "try.second_stream": "Run independent work in a second stream: it fills the SMs that are left.",
    "try.channels_last": "Use channels-last for model and input: .to(memory_format=torch.channels_last).",
    "need.convolutional": "it is a convolutional network under autocast",
    "worked.tensor_up_bytes_down": "tensor_active rises, bytes per step fall.",
    "try.align": "Make matrix dimensions multiples of 8 (16-bit types), better of 64.",
    "need.some_unaligned": "some are not",
    "worked.tensor_up": "tensor_active rises.",
    "try.use_tensor_cores": (
        "Bring all products to the tensor cores: in a 16-bit type or TF32, of matrices instead of "
        "vectors, in few groups."
    ),
    "need.some_miss": "some miss them",
    "try.fuse_between_products": (
        "Fuse what runs between the products: torch.compile, scaled_dot_product_attention."
    ),
    "need.reads_weights": "what is read are weights, and not a cache of each request",
    "worked.dram_same": "dram_read_bytes_per_s stays at more requests per second.",
    "need.latency_may_grow": "latency per request may grow",
    "try.side_by_side": "Run independent work side by side: several streams, or several processes under MPS.",
    "need.independent_work": "there is independent work",
    "need.work_for_all": "the kernels have independent work for all SMs, and are no chain of steps",
    "try.split_kernels": (
        "Use kernels that split the long dimension (split-K, split-KV), or fuse the small ones: "
        "torch.compile."
    ),
    "try.nsight_compute": (
        "Find the kernels that take the time and look at one with Nsight Compute: stalls, occupancy, "
        "access pattern."
    ),
    "worked.towards_roof": "Some resource moves towards its roof.",
    "try.index_select": (
        "Gather rows by index_select or embedding instead of x[index], whose gradient takes equal indices "
        "one after another; theirs adds atomically."
    ),
    "need.sums_may_round": "sums may differ in their last digits from run to run",
    "try.broadcast_distances": (
        "Subtract by broadcasting and sum up instead of cdist with p=1: (a[:, None] - b).abs().sum(-1)."
    ),
    "need.differences_fit": "the differences of all pairs fit into memory",
    "try.compiler": "Let a compiler fuse and re-tile it: torch.compile.",
    "worked.latency_down": "The share of latency falls.",
    "try.overlap_backward": (
        "Overlap communication with the backward pass: larger DDP buckets, or prefetch in FSDP."
    ),
    "worked.communication_down_at_rate": (
        "The share of communication falls at the same nvlink_rx_bytes_per_s."
    ),
    "try.accumulate": "Communicate less often: gradient accumulation.",
    "need.larger_effective_batch": "a larger effective batch is acceptable",
    "worked.communication_down": "The share of communication falls.",
    "try.raise_power": (
        "Ask the operator whether the board's power limit may be raised; the program itself is not to blame."
    ),
    "worked.clock_up": "gpc_clock rises.",
    "try.cooling": "Have the cooling checked: fans, airflow, dust, inlet temperature.",
    "worked.thermal_zero": "capped_thermal falls to 0.",
    "try.own_gpu": "Give each program a GPU of its own, or run them under MPS.",
    "worked.ctxsw_zero": "ctxsw falls to 0.",
    "try.reseat": "Have the board reseated or the slot and riser checked.",
    "worked.link_full": "pcie_generation and pcie_width reach their maximum.",
    "try.tile_order": (
        "Take tiles in an order in which those that run at once share rows and columns (in groups of rows, "
        "swizzled), or larger tiles."
    ),
    "need.read_again": "a product reads its matrices several times over",
    "try.more_under_way": (
        "Keep more under way on each SM: more warps per block, larger tiles, more stages, or more blocks by "
        "splitting the long dimension (split-K, split-KV)."
    ),
    "worked.warps_up": "warps_active rises, and some resource moves towards its roof.",
    "try.by_channel": (
        "Compute in 16 bits and in channels-last, for which cuDNN has kernels for convolutions channel by "
        "channel: torch.autocast and .to(memory_format=torch.channels_last)."
    ),
    "try.time_algorithms": "Let cuDNN time its algorithms: torch.backends.cudnn.benchmark = True.",
    "try.no_timing": (
        "Do not have cuDNN time its algorithms for each new size: torch.backends.cudnn.benchmark = False, "
        "or a few fixed sizes."
    ),
    "need.benchmark_on": "it is a convolutional network with cudnn.benchmark on, and sizes change",
    "try.fixed_size": (
        "Keep the size of results, which the host has to wait for otherwise: torch.where(mask, x, 0) and "
        "sums weighted by the mask instead of x[mask], one_hot(x, num_classes), "
        "repeat_interleave(output_size=...), nonzero_static(size=...), index_add_ instead of bincount."
    ),
    "try.decide_on_gpu": (
        "Decide on the GPU: torch.where instead of if, torch._assert_async instead of assert; or look at "
        "such a value every so many steps."
    ),
    "try.keep_answer": (
        "Keep the answer on the GPU: (a == b).all() or torch.isclose(a, b).all() instead of torch.equal and "
        "torch.allclose, read every so many steps."
    ),
    "try.unchecked": (
        "Factorise without looking whether it worked: torch.linalg.inv_ex, cholesky_ex, solve_ex, "
        "lu_factor_ex, ldl_factor_ex."
    ),
    "need.has_unchecked": "it is inv, cholesky, solve, lu_factor or ldl_factor; of the others there is none",
    "try.collect_rarely": (
        "Take gc.collect() out of the loop, or call it every so many hundred steps: Python's garbage "
        "collector comes by itself where much is new."
    ),
    "try.leave_out_wait": (
        "Leave out the wait for the GPU, which does not read results back; measure times with events, and "
        "read those every so many steps."
    ),
    "need.only_a_clock": "nothing but a clock needs it",
    "try.factor_on_gpu": (
        "Leave the factor on the GPU: x + a * y instead of torch.add(x, y, alpha=a), which reads a tensor a "
        "back."
    ),
    "try.hold_memory": (
        "Keep device memory and use it again: the caching allocator on (no caching_allocator_enable(False), "
        "no PYTORCH_NO_CUDA_MEMORY_CACHING), no empty_cache() in steps; where memory is nearly full, "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. cudaFree waits for the GPU."
    ),
    "try.keep_cache": (
        "Leave the allocator's cache alone: no empty_cache() and no statistics of it within the loop. Memory "
        "that it keeps is used again, and giving it back to CUDA waits for the GPU."
    ),
    "try.one_thread": (
        "Give each worker one thread: OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1 and MKL_NUM_THREADS=1 before "
        "workers start."
    ),
    "need.threads_crowd": "workers x threads of each (NumPy and OpenMP take all cores) exceed the cores",
    "worked.runqueue_down": "host_runqueue_wait falls, gr_active rises.",
    "try.keep_in_memory": "Keep in memory what was read once.",
    "need.memory_holds_it": "it fits into memory, and is read again",
    "try.compute_on_gpu": (
        "Compute on the GPU what the CPU computes meanwhile: layers left in host memory, operators after "
        ".cpu(), tensors made without device=; in a narrower type what does not fit."
    ),
    "need.gpu_can": "it is work that the GPU can do",
    "need.threads_compute": (
        "the threads compute, and do not only spin until there is more: with OMP_NUM_THREADS=1 it is slower"
    ),
    "worked.tree_down_active_up": "host_tree_cpu falls to one core, gr_active rises.",
    "try.keep_workers": (
        "Start workers once and not in each epoch: DataLoader(persistent_workers=True), one iterator for all "
        "epochs."
    ),
    "need.epochs_start_workers": "the stalls are the beginnings of epochs",
    "try.exchange_less": (
        "Copy less often what goes to the host and comes back: gradients once per step of the optimizer, and "
        "not after each batch."
    ),
    "need.goes_and_returns": "it need not be fresh each time",
    "worked.rx_tx_down": "pcie_rx_bytes_per_s and pcie_tx_bytes_per_s fall.",
    "try.tokenise_before": "Tokenise once, before the training, and keep the numbers.",
    "need.texts_again": "texts are used more than once",
    "try.index_batch": (
        "Index a batch at once: x[indices] instead of samples that are put together again "
        "(DataLoader(sampler=BatchSampler(...), batch_size=None), or __getitems__ in the dataset)."
    ),
    "try.stop_compiling": (
        "Stop compiling again and again: numbers that change as tensors (lr=torch.tensor(...)), lengths "
        "padded to a few sizes, or dynamic=True; TORCH_LOGS=recompiles says why."
    ),
    "try.copy_without_waiting": (
        "Do not wait for copies to the GPU: keep there what is used again, and copy the rest from pinned "
        "memory with non_blocking=True."
    ),
    "try.copy_without_waiting.other": (
        "Do not wait for copies to the GPU: keep there what is used again, and copy the rest asynchronously "
        "from pinned memory."
    ),
    "try.no_checks": (
        "Take out what was left on for debugging: torch.autograd.set_detect_anomaly, or checks for NaN. Each "
        "waits for the GPU."
    ),
    "try.overlap_line": (
        "Launch the next step first, and do this while the GPU works on it, with the results of the step "
        "before."
    ),
    "need.next_step_independent": "the next step does not need it",
    "try.tf32": 'Allow TF32: torch.set_float32_matmul_precision("high").',
    "try.tf32_convolutions": "Allow TF32 in convolutions: torch.backends.cudnn.allow_tf32 = True.",
    "try.tf32_both": (
        'Allow TF32: torch.set_float32_matmul_precision("high"), and for convolutions '
        "torch.backends.cudnn.allow_tf32 = True."
    ),
    "try.tf32.cupy": "Allow TF32: start the program with CUPY_TF32=1.",
    "try.tf32.jax": 'Allow TF32: jax.config.update("jax_default_matmul_precision", "tensorfloat32").',
    "try.tf32.other": "Allow TF32 where matrices are multiplied (cuBLAS: CUBLAS_TF32_TENSOR_OP_MATH).",
    "try.fp16.cupy": "Run it in float16: arrays of cupy.float16 are multiplied on the tensor cores.",
    "try.bf16.jax": "Run it in bfloat16: cast parameters and inputs with .astype(jax.numpy.bfloat16).",
    "try.bf16.other": "Run it in a 16-bit type.",
    "try.fp16.jax": (
        "Run it in float16: cast parameters and inputs with .astype(jax.numpy.float16), and scale the loss."
    ),
    "try.fp16.other": "Run it in float16.",
    "need.mixed_precision.other": "16 bits are precise enough",
    "try.bf16_activations.cupy": "Keep arrays between kernels in cupy.float16.",
    "try.bf16_activations.other": "Keep activations in bfloat16.",
    "try.fuse_elementwise.cupy": (
        "Fuse elementwise operations so that intermediate results never reach memory: cupy.fuse."
    ),
    "try.fuse_elementwise.jax": (
        "Fuse elementwise operations so that intermediate results never reach memory: one jax.jit."
    ),
    "try.fuse_elementwise.other": (
        "Fuse elementwise operations so that intermediate results never reach memory."
    ),
    "try.fused_attention.jax": (
        'Use a fused attention kernel: jax.nn.dot_product_attention(implementation="cudnn").'
    ),
    "try.fused_attention.other": "Use a fused attention kernel.",
    "try.no_fills.cupy": "Avoid fills: cupy.empty instead of cupy.zeros where all of it is overwritten.",
    "try.no_fills.other": "Avoid fills where all of it is overwritten.",
    "try.drop_gradients.other": "Let gradients go instead of filling them with zeros.",
    "try.fused_or_8bit_optimizer.other": "Use a fused optimizer, or one that keeps its state in 8 bits.",
    "try.fuse_through_l2.other": "Fuse kernels that hand each other their results through the L2.",
    "try.channels_last.other": "Use channels-last for model and input.",
    "need.convolutional.other": "it is a convolutional network in a 16-bit type",
    "try.fuse_between_products.other": "Fuse what runs between the products.",
    "try.split_kernels.compiled": (
        "Use kernels that split the long dimension (split-K, split-KV): products of a few rows have one."
    ),
    "try.split_kernels.other": (
        "Use kernels that split the long dimension (split-K, split-KV), or fuse the small ones."
    ),
    "try.compiler.other": "Let a compiler fuse and re-tile it.",
    "try.fused_optimizer_step.jax": (
        "Update all parameters in few kernels: the optimizer's step within jax.jit."
    ),
    "try.fused_optimizer_step.other": "Update all parameters in few kernels: a fused optimizer.",
    "try.graph.cupy": (
        "Record the step into a CUDA graph: begin_capture and end_capture of a cupy.cuda.Stream."
    ),
    "try.graph.jax": "Record the step into a CUDA graph: XLA does so within one jax.jit.",
    "try.graph.other": "Record the step into a CUDA graph.",
    "try.launch_less.cupy": "Launch less: cupy.fuse, or a cupy.ElementwiseKernel that does all at once.",
    "try.launch_less.jax": "Launch less: the whole step in one jax.jit.",
    "try.launch_less.other": "Launch less: fuse small kernels into larger ones.",
    "try.launch_less_there": (
        'Launch less: a CUDA graph (torch.compile(mode="reduce-overhead")), a fused optimizer, or a '
        "larger batch."
    ),
    "try.launch_less_there.cupy": "Launch less: cupy.fuse, a CUDA graph, or larger arrays.",
    "try.launch_less_there.jax": "Launch less: the whole step in one jax.jit, or a larger batch.",
    "try.launch_less_there.other": "Launch less: a CUDA graph, fused kernels, or a larger batch.",
    "try.read_less.cupy": (
        "Do not read results back in every step: .item(), .get(), print(x), bool(x) wait for the GPU."
    ),
    "try.read_less.jax": (
        "Do not read results back in every step: float(x), numpy.asarray(x), print(x), bool(x), "
        "block_until_ready wait for the GPU."
    ),
    "try.read_less.other": "Do not read results back in every step: the host waits for the GPU then.",
    "worked.active_rises": "gr_active rises.",
    "try.see_streams.other": (
        "See which stream waits for which: nsys profile --trace=cuda,osrt for a few steps; then wait for "
        "less (for an event instead of a stream), or start the awaited work earlier."
    ),
    "try.checkpoint_thread.other": (
        "Save checkpoints from a thread: copy the state to pinned memory, and write that."
    ),
    "try.pinned.cupy": "Copy from pinned memory (cupyx.empty_pinned), in a stream of its own.",
    "try.pinned.other": "Copy from pinned memory, asynchronously.",
    "try.more_workers.other": "Give the loader more workers that stay, and let it read ahead.",
    "try.less_in_loader": "Do less per sample in the DataLoader, or give it more workers.",
    "try.less_in_loader.other": "Do less per sample in the loader, or give it more workers.",
    "try.overlap_backward.other": "Overlap communication with computation.",
    "try.read_less_there": "Do not read results back in every step.",
    "try.other_process": "Do the work of that thread in another process: it holds the GIL.",
    "try.less_at_line": "Do less at one line of the program, or do it in another thread or process.",
    "try.compute_on_gpu.other": (
        "Compute on the GPU what the CPU computes meanwhile, and keep arrays there; in a narrower type what "
        "does not fit."
    ),
    "try.keep_workers.other": "Start workers once and not in each epoch.",
    "try.index_batch.other": "Index a batch at once: x[indices] instead of one sample after another.",
    "try.stop_compiling.jax": (
        "Stop compiling again and again: lengths padded to a few sizes, numbers that change as arrays and "
        'not static; jax.config.update("jax_log_compiles", True) says what.'
    ),
    "try.stop_compiling.other": (
        "Stop compiling again and again: lengths padded to a few sizes, numbers that change as arguments."
    ),
    "try.no_timing.other": "Keep to a few fixed sizes, so that kernels are chosen once for each.",
    "need.benchmark_on.other": "kernels are chosen anew for each size, and sizes change",
    "try.fixed_size.other": (
        "Keep the size of results, which the host has to wait for otherwise: where(mask, x, 0) and sums "
        "weighted by the mask instead of x[mask]."
    ),
    "try.decide_on_gpu.other": (
        "Decide on the GPU: where instead of if; or look at such a value every so many steps."
    ),
    "try.keep_answer.other": "Keep the answer on the GPU, and read it every so many steps.",
    "try.unchecked.other": "Factorise without looking each time whether it worked.",
    "need.has_unchecked.other": "the library can do without",
    "try.factor_on_gpu.other": "Leave the factor on the GPU: multiply by the array, not by a number.",
    "try.keep_cache.other": "Keep device memory and use it again: giving it back to CUDA waits for the GPU.",
}
