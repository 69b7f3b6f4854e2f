"""What stacks mean: frames of libraries, and texts of lines."""

from __future__ import annotations

import pytest

from perfzero.attribute.host_activity import Activity, Stage, may_copy, meaning, stage
from perfzero.stacks import Frame

SITE = "/venv/lib/python3.12/site-packages"
TRAIN = Frame("/job/train.py", 41, "main")
MODULE = Frame("/job/train.py", 90, "<module>")


def torch(file: str, function: str) -> Frame:
    return Frame(f"{SITE}/torch/{file}", 7, function)


def activity(text: str, *inner: Frame, inner_text: str = "") -> Activity:
    """Of the program's line with *text*, and frames inside it, the innermost first."""
    texts = {TRAIN: text, **({inner[0]: inner_text} if inner else {})}
    return meaning((*inner, TRAIN, MODULE), lambda frame: texts.get(frame, "")).activity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("total += loss.item()", "synchronising"),
        ("torch.cuda.synchronize()", "synchronising"),
        ("rows = torch.nonzero(score > 0.5)", "synchronising"),
        ("loss = error[mask].mean()", "synchronising"),
        ("kept = x[x > 0]", "synchronising"),
        ("if torch.isnan(loss):", "synchronising"),
        ("value = float(loss)", "synchronising"),
        ("total += float(self.loss.detach())", "synchronising"),
        ("if loss > 2 * best:", "synchronising"),
        ("if not loss.isfinite():", "synchronising"),
        ("scores.block_until_ready()", "synchronising"),
        ("assert math.isfinite(loss)", "synchronising"),
        ("loss = logits[targets != -100].mean()", "synchronising"),
        ("ids = logits.argmax(-1).tolist()", "synchronising"),
        ("x = x.to('cpu')", "copying"),
        ("x = x.to(self.device, torch.bfloat16)", "copying"),
        ("x = x.to(dtype=torch.float16, device=device)", "copying"),
        ("x = x.to('cuda:1')", "copying"),
        ("x = torch.tensor(rows, device=device)", "copying"),
        ("kept.append(out.cpu())", "copying"),
        ("batch = rows.to(device)", "copying"),
        ("x = x.cuda()", "copying"),
        ("batch = kept if fixed else rows.to(base.DEVICE)", "copying"),
        ("x = x.to(batch['x'].device)", "copying"),
        ("x = x.to(0)", "copying"),
        ("gc.collect()", "garbage collection"),
        ("torch.save(net.state_dict(), path)", "checkpoint"),
        ("torch.cuda.empty_cache()", "allocator"),
        ("ids = tokenizer.encode(text)", "tokenising"),
        ("time.sleep(0.1)", "sleeping"),
        ("logger.info('step')", "logging"),
        ("file.write(line)", "disk"),
        ("lock.acquire()", "lock"),
        ("answer = requests.get(url)", "network"),
        ("y = x @ w + b", "python"),
        ("", "python"),
    ],
)
def test_the_text_of_a_line_tells_what_a_function_without_a_frame_does(text: str, expected: str) -> None:
    assert activity(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x = x.to(device, non_blocking=True)",
        "x = x.cuda(non_blocking=True)",
        "x[mask] = 0",
        "y = x[i]",
        "loss = net(x).mean()",
        "items = list(rows)",
        "print_every = 10",
        # What looks like a wait, and is the host's own work as often.
        "ids = [int(t) for t in line.split()]",
        "total = sum(float(v) for v in row)",
        "value = float(text)",
        "x = x.to(torch.bfloat16)",
        "x = x.to(memory_format=torch.channels_last)",
        "x = x.to(other)",
        "x = x.to(DEVICE_DTYPE)",
        "x = x.to(device_map)",
        "classes = np.unique(labels)",
        "rows = np.nonzero(labels)",
        'names = table["name"].unique()',
        "data = array.tolist()",
        "done.wait()",
        "rows = batch.numpy()",
        "if use_loss_scaling:",
        'if config.loss == "mse":',
        "if (a == b).all():",
        'mask = batch["attention_mask"]',
        'y = F.scaled_dot_product_attention(q, k, v, attn_mask=batch["mask"])',
        'kept = df[df["age"] > 3]',
        "y = np.abs(x[x > 0])",
        "w = weights[i > 3]",
        "b = data[rows[i] == 3]",
        "v = [r for r in rows if r[r > 0]]",
        'x = torch.zeros(n, device="cpu")',
        'x = torch.tensor(rows, device="cpu")',
        "x = torch.tensor(rows)",
    ],
)
def test_what_waits_for_nothing_is_no_wait(text: str) -> None:
    assert activity(text) == "python"


@pytest.mark.parametrize(
    "text",
    [
        "x = x.to(where)",
        "x = x.to(where, torch.bfloat16)",
        "x = x.cuda(non_blocking=True)",
        "held.copy_(rows)",
        "batch = to_device(batch)",
        "batch = self.move_to_device(batch)",
        "inputs = self._prepare_inputs(inputs)",
    ],
)
def test_a_line_whose_words_leave_it_open_may_copy(text: str) -> None:
    assert activity(text) == "python"
    assert may_copy(text)


@pytest.mark.parametrize(
    "text",
    [
        "x = x.to(torch.bfloat16)",
        "x = x.to(x.dtype)",
        "x = x.to(dtype)",
        "x = x.to( self.dtype, copy=True)",
        "x = x.copy()",
        "tokens = sorted(tokens)",
    ],
)
def test_a_cast_and_other_work_of_the_host_copy_nothing(text: str) -> None:
    assert not may_copy(text)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (torch("_tensor.py", "Tensor.__format__"), "synchronising"),
        (torch("_tensor_str.py", "_str"), "synchronising"),
        (torch("cuda/__init__.py", "synchronize"), "synchronising"),
        (torch("serialization.py", "_save"), "checkpoint"),
        (torch("utils/data/dataloader.py", "_BaseDataLoaderIter.__next__"), "loader"),
        (torch("_dynamo/convert_frame.py", "_compile"), "compiling"),
        (torch("nn/modules/module.py", "Module._call_impl"), "launching"),
        (torch("autograd/graph.py", "_engine_run_backward"), "launching"),
        (Frame("/usr/lib/python3.12/logging/__init__.py", 7, "Handler.emit"), "logging"),
        (Frame("/usr/lib/python3.12/threading.py", 7, "Condition.wait"), "lock"),
        (Frame("/usr/lib/python3.12/socket.py", 7, "SocketIO.readinto"), "network"),
        (Frame(f"{SITE}/transformers/tokenization_utils.py", 7, "tokenize"), "tokenising"),
        (Frame(f"{SITE}/transformers/tokenization_utils_base.py", 7, "BatchEncoding.pad"), "tokenising"),
        (Frame(f"{SITE}/transformers/tokenization_utils_base.py", 7, "BatchEncoding.to"), "copying"),
        (Frame(f"{SITE}/accelerate/utils/operations.py", 7, "send_to_device"), "copying"),
        (Frame(f"{SITE}/accelerate/utils/operations.py", 7, "gather"), "python"),
    ],
)
def test_a_frame_of_a_library_goes_before_the_text(inner: Frame, expected: str) -> None:
    assert activity("out = step(batch)", inner) == expected


@pytest.mark.parametrize("library", ["numpy/lib/_arraysetops_impl.py", "pandas/core/series.py"])
def test_a_line_that_is_in_a_library_of_the_host_waits_for_no_gpu(library: str) -> None:
    inner = Frame(f"{SITE}/{library}", 300, "unique")

    assert activity("rows = unique(x.cpu())", inner) == "python"
    assert activity("rows = f(x)", inner, inner_text="return torch.unique(x)") == "python"
    # Torch itself may be below it, which makes an array of a tensor.
    assert activity("y = np.unique(x)", torch("_tensor.py", "Tensor.__array__"), inner) == "synchronising"


def test_a_line_whose_time_is_a_librarys_is_not_told_by_what_else_stands_on_it() -> None:
    metric = Frame(f"{SITE}/torchmetrics/metric.py", 12, "update")

    assert activity("metric.update(loss.item())", metric) == "python"
    assert activity("total += loss.item()", torch("_jit_internal.py", "fn")) == "synchronising"
    assert activity("gc.collect()", metric) == "garbage collection"


def test_the_frame_that_is_nearest_to_the_innermost_one_decides() -> None:
    wait = Frame("/usr/lib/python3.12/threading.py", 7, "Condition.wait")

    assert activity("", wait, torch("nn/modules/module.py", "Module._call_impl")) == "lock"


def test_a_loader_is_waited_for_whatever_it_waits_with() -> None:
    wait = Frame("/usr/lib/python3.12/threading.py", 7, "Condition.wait")

    assert activity("", wait, torch("utils/data/dataloader.py", "_try_get_data")) == "loader"


def test_what_a_checkpoint_writes_with_is_the_checkpoints() -> None:
    """torch.save takes any object that has write(); whatever that waits for, it is to be done elsewhere."""
    write = Frame("/job/store.py", 14, "Upload.write")
    texts = {write: "time.sleep(len(part) / self.rate)", TRAIN: "torch.save(state, Upload(rate))"}
    sends = Frame("/usr/lib/python3.12/socket.py", 7, "SocketIO.write")
    save = torch("serialization.py", "save")

    def told(*inner: Frame) -> Activity:
        return meaning((*inner, TRAIN, MODULE), lambda frame: texts.get(frame, "")).activity

    assert told(write, save) == told(sends, write, save) == "checkpoint"
    # The same object by itself does what it does.
    assert (told(write), told(sends, write)) == ("sleeping", "network")


def test_a_wait_inside_a_library_is_told_by_the_librarys_own_line() -> None:
    inner = torch("optim/adam.py", "_get_value")

    assert activity("optimizer.step()", inner, inner_text="return x.item()") == "synchronising"
    assert activity("optimizer.step()", inner, inner_text="return x") == "launching"


def test_the_path_holds_the_programs_own_frames_the_outermost_first() -> None:
    stack = (torch("nn/modules/module.py", "Module._call_impl"), TRAIN, MODULE)

    assert meaning(stack, lambda _: "").path == (MODULE, TRAIN)


def test_a_launcher_is_no_part_of_the_program() -> None:
    launcher = Frame("/venv/bin/torchrun", 8, "<module>")

    assert meaning((TRAIN, MODULE, launcher), lambda _: "").path == (MODULE, TRAIN)


def test_a_program_that_is_a_library_itself_is_told_by_its_own_frames() -> None:
    trainer = Frame(f"{SITE}/trainer/run.py", 3, "run")

    assert meaning((torch("_tensor.py", "backward"), trainer), lambda _: "").path == (trainer,)


FETCH = torch("utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch")
LOOP = torch("utils/data/_utils/worker.py", "_worker_loop")
DATASET = Frame("/job/data.py", 12, "Images.__getitem__")


@pytest.mark.parametrize(
    ("inner", "text", "expected"),
    [
        ((Frame(f"{SITE}/PIL/ImageFile.py", 3, "load"), DATASET, FETCH, LOOP), "", "decoding"),
        (
            (Frame(f"{SITE}/torchvision/transforms/v2.py", 3, "forward"), DATASET, FETCH, LOOP),
            "",
            "augmenting",
        ),
        ((DATASET, FETCH, LOOP), "image = Image.open(path)", "decoding"),
        ((DATASET, FETCH, LOOP), "data = open(path, 'rb').read()", "reading"),
        ((DATASET, FETCH, LOOP), "x = a + b", "other"),
    ],
)
def test_what_a_worker_does_has_a_stage_and_a_line(
    inner: tuple[Frame, ...], text: str, expected: Stage
) -> None:
    assert stage(inner, lambda frame: text if frame == DATASET else "") == (expected, DATASET)


def test_putting_a_batch_together_is_collating() -> None:
    collate = torch("utils/data/_utils/collate.py", "default_collate")

    assert stage((collate, FETCH, LOOP), lambda _: "") == ("collating", None)


def test_a_worker_that_waits_for_an_order_does_nothing() -> None:
    queue = Frame("/usr/lib/python3.12/multiprocessing/queues.py", 3, "Queue.get")

    assert stage((queue, LOOP, MODULE), lambda _: "") is None


def test_a_library_below_a_folder_called_torch_is_not_torch() -> None:
    path = "/opt/torch/.venv/lib/python3.12/site-packages"
    triton, torch_itself = (
        Frame(f"{path}/{file}.py", 7, "run") for file in ("triton/runtime/jit", "torch/nn/modules/module")
    )

    assert meaning((triton, torch_itself), lambda _: "").path == (triton,)
    assert meaning((torch_itself, triton), lambda _: "").path == (triton,)
    assert meaning((torch_itself,), lambda _: "").path == (torch_itself,)


def jax(file: str, function: str) -> Frame:
    return Frame(f"{SITE}/jax/_src/{file}", 7, function)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        # As py-spy saw JAX 0.7 to be, of functions called with one length after another.
        (jax("compiler.py", "backend_compile_and_load"), "compiling"),
        (jax("cache_key.py", "_canonicalize_ir"), "compiling"),
        (jax("interpreters/mlir.py", "make_ir_context"), "compiling"),
        (jax("interpreters/pxla.py", "lower_sharding_computation"), "compiling"),
        (jax("interpreters/pxla.py", "UnloadedMeshExecutable.from_hlo"), "compiling"),
        (jax("pjit.py", "_trace_for_jit"), "compiling"),
        (jax("array.py", "ArrayImpl._value"), "synchronising"),
        (jax("array.py", "ArrayImpl.__float__"), "synchronising"),
        # What calls a function that is compiled already, or one operation.
        (jax("pjit.py", "_cpp_pjit.<locals>.cache_miss"), "launching"),
        (jax("pjit.py", "_infer_params"), "launching"),
        (jax("interpreters/pxla.py", "ExecuteReplicated.__call__"), "launching"),
        (jax("numpy/reductions.py", "sum"), "launching"),
        (jax("array.py", "ArrayImpl.__getitem__"), "launching"),
    ],
)
def test_of_jax_too_it_is_told_whether_it_compiles_waits_or_launches(inner: Frame, expected: str) -> None:
    assert activity("y = step(x)", inner) == expected


def test_a_function_that_jax_traces_is_part_of_compiling_it() -> None:
    traced = Frame("/job/model.py", 5, "score")
    trace = jax("interpreters/partial_eval.py", "trace_to_jaxpr")

    assert meaning((traced, trace, TRAIN, MODULE), lambda _: "").activity == "compiling"


def test_what_imports_a_compiler_compiles_nothing() -> None:
    assert activity("import net", torch("_dynamo/guards.py", "<module>")) == "launching"
    assert activity("y = net(x)", torch("_dynamo/guards.py", "build")) == "compiling"


GET = torch("utils/data/dataloader.py", "DataLoader._get_iterator")
PYTHON = "/usr/lib/python3.12/multiprocessing"


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ((Frame(f"{PYTHON}/popen_spawn_posix.py", 7, "Popen._launch"), GET), "starting workers"),
        ((Frame(f"{PYTHON}/process.py", 7, "BaseProcess.start"), GET), "starting workers"),
        ((torch("utils/data/dataloader.py", "_MultiProcessingDataLoaderIter._shutdown_workers"),),
         "starting workers"),
        ((torch("utils/data/dataloader.py", "_try_get_data"),), "loader"),
        ((GET,), "loader"),
        # A dataset that starts a process for a sample.
        ((Frame(f"{PYTHON}/process.py", 7, "BaseProcess.start"), torch("utils/data/_utils/fetch.py", "fetch"),
          GET), "loader"),
    ],
)  # fmt: skip
def test_a_loader_that_starts_its_workers_is_told_from_one_that_is_waited_for(
    inner: tuple[Frame, ...], expected: str
) -> None:
    assert activity("for x in loader:", *inner) == expected


@pytest.mark.parametrize(
    ("function", "text", "expected"),
    [
        ("Bucket.read", "time.sleep(self.latency)", "reading"),
        ("Bucket.read", "with self.lock:", "reading"),
        ("_download_file", "wait(0.1)", "reading"),
        ("Images.__getitem__", "x = self.drive.read(name)", "reading"),
        ("Images.__getitem__", "content = path.read_bytes()", "reading"),
        ("Images.__getitem__", "time.sleep(0.1)", "other"),
        ("Reader.ready", "a = b + c", "other"),
        ("Tokenizer.encode", "at = ranks.index(min(ranks))", "tokenising"),
        ("encode", "boxes = anchors - boxes", "other"),
        ("Rows.__getitem__", "return self.x[i], self.y[i]", "picking"),
        ("Rows.__getitem__", "row = self.tokens[idx].long()", "picking"),
        ("Rows.__getitem__", "return augmented(self.x[i])", "augmenting"),
    ],
)
def test_a_worker_is_told_by_what_it_waits_for_or_by_what_its_function_is_called(
    function: str, text: str, expected: Stage
) -> None:
    own = Frame("/job/data.py", 12, function)

    assert stage((own, FETCH, LOOP), lambda _: text) == (expected, own)


def test_a_worker_that_reads_from_the_network_reads() -> None:
    receive = Frame("/usr/lib/python3.12/ssl.py", 7, "SSLSocket.recv_into")

    assert stage((receive, DATASET, FETCH, LOOP), lambda _: "") == ("reading", DATASET)


def test_samples_of_a_dataset_of_torchs_own_are_picked() -> None:
    tensors = torch("utils/data/dataset.py", "TensorDataset.__getitem__")

    assert stage((tensors, FETCH, LOOP), lambda _: "") == ("picking", None)
    assert stage((FETCH, LOOP), lambda _: "") == ("picking", None)


def test_the_main_process_makes_its_batches_below_the_loader_only() -> None:
    wait = Frame(f"{PYTHON}/connection.py", 7, "wait")
    loader = torch("utils/data/dataloader.py", "_try_get_data")

    assert stage((FETCH, loader, TRAIN, MODULE), lambda _: "", worker=False) == ("picking", None)
    assert stage((DATASET, FETCH, loader, TRAIN, MODULE), lambda _: "", worker=False) == ("other", DATASET)
    assert stage((wait, loader, TRAIN, MODULE), lambda _: "", worker=False) is None
    assert stage((TRAIN, MODULE), lambda _: "open(path)", worker=False) is None
