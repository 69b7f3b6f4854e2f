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
