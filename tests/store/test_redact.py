"""No secret reaches a file, and what is no secret stays readable."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perfzero.diagnose.leftovers import SWITCHES
from perfzero.store.redact import (
    REMOVED,
    anonymous_text,
    anonymous_uuid,
    redact_command,
    redact_environment,
    redact_text,
)

ALPHANUMERIC = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
secrets = st.text(ALPHANUMERIC, min_size=20, max_size=60)
secret_names = st.sampled_from(
    ["token", "hf-token", "hf_token", "password", "db.password", "PASSWORD", "api-key", "api_key", "apiKey",
     "wandb.api_key", "WANDB_API_KEY", "secret", "client-secret", "aws_secret_access_key", "auth-token",
     "passphrase"]
)  # fmt: skip
well_known = st.one_of(
    st.text(ALPHANUMERIC, min_size=20, max_size=48).map(lambda s: "sk-" + s),
    st.text(ALPHANUMERIC, min_size=20, max_size=40).map(lambda s: "hf_" + s),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=16, max_size=16).map(lambda s: "AKIA" + s),
    st.text(ALPHANUMERIC, min_size=36, max_size=36).map(lambda s: "ghp_" + s),
    st.text(ALPHANUMERIC, min_size=20, max_size=20).map(lambda s: "glpat-" + s),
)
anything = st.lists(st.text(max_size=30), max_size=8)


@given(before=anything, name=secret_names, secret=secrets, after=anything)
def test_the_value_of_a_secret_option_is_removed_in_either_form(
    before: list[str], name: str, secret: str, after: list[str]
) -> None:
    together = redact_command([*before, f"--{name}={secret}", *after])
    apart = redact_command([*before, "--", f"--{name}", secret, *after])
    override = redact_command([*before, f"{name}={secret}", *after])

    assert f"--{name}={REMOVED}" in together
    assert (f"--{name}", REMOVED) in pairwise(apart)
    assert f"{name}={REMOVED}" in override


@given(
    secret=well_known,
    before=st.text(" :=,;/'\"(", max_size=5),
    after=st.sampled_from(["", " ", "'", "\n", ","]),
)
def test_a_key_of_a_well_known_form_is_removed_wherever_it_stands(
    secret: str, before: str, after: str
) -> None:
    assert secret not in redact_text(f"text{before} {secret}{after}")
    assert secret not in " ".join(redact_command(["python", f"train.py{before} {secret}{after}"]))
    assert secret not in str(redact_environment({"NCCL_NOTE": f"{before}{secret}{after}"}))


@given(user=st.text(ALPHANUMERIC, min_size=1), secret=st.text(ALPHANUMERIC + "@:%!", min_size=6))
def test_the_login_in_a_url_is_removed(user: str, secret: str) -> None:
    assume(user.lower() not in {"authorization", "bearer", "basic"})  # then more is removed, the host too
    assert f"s3://{REMOVED}@host/bucket" == redact_text(f"s3://{user}:{secret}@host/bucket")


@given(command=anything)
def test_redacting_twice_is_redacting_once_and_keeps_the_number_of_arguments(command: list[str]) -> None:
    once = redact_command(command)

    assert len(command) == len(once)
    assert once == redact_command(once)


@pytest.mark.parametrize(
    ("shell", "kept"),
    [
        ("export HF_TOKEN=abc; python t.py", f"export HF_TOKEN={REMOVED}; python t.py"),
        ('WANDB_API_KEY="a b c" python t.py', f"WANDB_API_KEY={REMOVED} python t.py"),
        ("python t.py --password 'open sesame' --lr 1", f"python t.py --password {REMOVED} --lr 1"),
        ("curl -H 'Authorization: Bearer abcdefghij'", f"curl -H 'Authorization: {REMOVED}'"),
        ("got https://h/x?sig=abc&page=2", f"got https://h/x?sig={REMOVED}&page=2"),
        ("docker run --env=HF_TOKEN=abc --rm", f"docker run --env=HF_TOKEN={REMOVED} --rm"),
        ("t.py --resume --token abc x", f"t.py --resume --token {REMOVED} x"),
        ("t.py --set=lr=1,token=abc", f"t.py --set=lr=1,token={REMOVED}"),
        ("ARGS='--lr 1 --api-key abc'", f"ARGS='--lr 1 --api-key {REMOVED}'"),
        ('{"lr": 1, "api_key": "a b"}', f'{{"lr": 1, "api_key": {REMOVED}}}'),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- x", f"{REMOVED} x"),
    ],
)
def test_a_secret_inside_a_shell_line_is_removed_and_the_rest_stays(shell: str, kept: str) -> None:
    assert ("bash", "-c", kept) == redact_command(["bash", "-c", shell])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    ["a", "a=", "key=", "/a", " ", "-a ", "X-a", "eyJaaaaaaaa.", "?a", "aB3/", 'a="', "--", "://a", "://@"],
)
def test_a_very_long_argument_takes_no_long_time(piece: str) -> None:
    """128 KiB, the longest that Linux allows; a quadratic expression would need minutes."""
    argument = piece * (131_072 // len(piece))

    assert len(redact_command([argument])) == 1
    assert len(anonymous_text(argument)) <= len(argument)


def test_a_random_string_is_a_secret_after_a_key_and_none_after_a_commit() -> None:
    digest = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

    assert ("--key", REMOVED, "--commit", digest) == redact_command(["--key", digest, "--commit", digest])


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-u", "train.py", "--tokenizer", "gpt2", "--max-tokens", "128", "--num-tokens=5"],
        [
            "torchrun",
            "--nproc-per-node",
            "8",
            "train.py",
            "--key",
            "value",
            "--author=me",
            "--token-dim",
            "64",
        ],
        ["python", "-m", "pkg.main", "model.hidden=4096", "data.path=/data/imagenet", "optim.lr=1e-4"],
        ["python", "-c", "import torch; x = torch.ones(1); print(x, 'keys: 1')"],
        ["bash", "-c", "cd /srv && python train.py --passes 3 --sort-key name"],
        ["python", "train.py", "--data", "s3://bucket/path", "--mirror", "https://pypi.org/simple?page=2"],
        [],
    ],
    ids=" ".join,
)
def test_a_command_without_secrets_stays_as_it_is(command: list[str]) -> None:
    assert tuple(command) == redact_command(command)


def test_a_flag_after_a_secret_flag_is_no_secret() -> None:
    assert redact_command(["--token", "--verbose", "x"]) == ("--token", "--verbose", "x")


def test_only_variables_that_matter_are_kept() -> None:
    kept = redact_environment(
        {
            "CUDA_VISIBLE_DEVICES": "GPU-3f2a51c0-1111-2222-3333-444455556666",
            "NCCL_DEBUG": "INFO",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            "CUDA_PATH": "/srv/project/src/with/a/long/path1",
            "OMP_NUM_THREADS": "4",
            "LOCAL_RANK": "0",
            "NVTX_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so",
            "HOME": "/root",
            "HF_TOKEN": "hf_x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "SSH_AUTH_SOCK": "/x",
        }
    )

    assert kept == {
        "CUDA_VISIBLE_DEVICES": "GPU-3f2a51c0-1111-2222-3333-444455556666",
        "NCCL_DEBUG": "INFO",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "CUDA_PATH": "/srv/project/src/with/a/long/path1",
        "OMP_NUM_THREADS": "4",
        "LOCAL_RANK": "0",
        "NVTX_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so",
    }


def test_every_variable_that_tells_of_a_debugging_leftover_is_kept() -> None:
    names = {name for name, *_ in SWITCHES}

    assert redact_environment(dict.fromkeys(names, "1")) == dict.fromkeys(names, "1")


@given(secret=st.from_regex(r"[A-Za-z]{8}[0-9]{8}[A-Za-z0-9]{20}", fullmatch=True))
def test_a_random_value_is_removed_even_from_a_variable_that_matters(secret: str) -> None:
    assert redact_environment({"NCCL_X": secret, "TORCH_API_KEY": "short"}) == {
        "NCCL_X": REMOVED,
        "TORCH_API_KEY": REMOVED,
    }


def test_an_anonymous_text_has_no_path_and_no_host() -> None:
    text = "node17.cluster: /home/ada/src/train.py --out=~/runs/x failed, see ./log/a.txt (node17)"

    assert f"{REMOVED}: train.py --out=x failed, see a.txt ({REMOVED})" == anonymous_text(
        text, names=["node17.cluster", "node17"]
    )


def test_what_is_no_path_survives_anonymity() -> None:
    text = "1.2 GB/s at 3/4 load, https://example.org/docs, dtype float16, n/a"
    assert text == anonymous_text(text)


def test_an_anonymous_uuid_is_stable_different_and_of_the_same_kind() -> None:
    real = "GPU-3f2a51c0-1111-2222-3333-444455556666"
    fake = anonymous_uuid(real)

    assert fake == anonymous_uuid(real)
    assert fake != anonymous_uuid(real[:-1] + "7")
    assert re.fullmatch(r"GPU(-[0-9a-f]+){5}", fake)
    assert anonymous_uuid("MIG-1").startswith("MIG-")
    assert not set(real[4:].split("-")) & set(fake[4:].split("-"))


def test_a_list_of_paths_has_none_left_when_anonymous() -> None:
    assert anonymous_text("src:/home/ann/house/src:/opt/site") == "src:src:site"
    assert anonymous_text("see https://example.org/a/page") == "see https://example.org/a/page"


def test_where_python_finds_its_modules_is_nobodys_business() -> None:
    kept = redact_environment({"PYTHONPATH": "/home/ann/secret-project", "PYTHONDEVMODE": "1"})
    assert kept == {"PYTHONDEVMODE": "1"}


@pytest.mark.parametrize(
    "name",
    ["TF_TOKEN_app_terraform_io", "TF_VAR_db_pw", "TF_VAR_admin_creds", "TF_CLI_ARGS_plan", "TF_CONFIG"],
)
def test_terraform_s_variables_are_none_of_tensorflow_s(name: str) -> None:
    assert redact_environment({name: "hunter2", "TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}) == {
        "TF_XLA_FLAGS": "--tf_xla_auto_jit=2"
    }


def test_a_variable_with_a_secret_anywhere_in_its_name_is_removed_and_none_that_only_sounds_so() -> None:
    kept = redact_environment({"TRITON_TOKEN_1": "abcdef", "NCCL_AUTH_X": "abc", "VLLM_MAX_TOKENS": "512"})
    assert kept == {"TRITON_TOKEN_1": REMOVED, "NCCL_AUTH_X": REMOVED, "VLLM_MAX_TOKENS": "512"}


def test_a_value_of_a_megabyte_is_cut_before_it_is_searched() -> None:
    """And stays as it is when it is redacted again on its way to the file."""
    kept = redact_environment({"NCCL_X": "a b=" * 300_000})

    assert len(kept["NCCL_X"]) < 1100
    assert redact_environment(kept) == kept


def test_what_a_container_asks_of_a_driver_is_left_out() -> None:
    assert redact_environment({"NVIDIA_REQUIRE_CUDA": "cuda>=13.0 " * 200, "NVIDIA_TF32_OVERRIDE": "0"}) == {
        "NVIDIA_TF32_OVERRIDE": "0"
    }


def test_the_address_of_a_webhook_is_a_secret() -> None:
    text = "see https://hooks.slack.com/services/T00/B00/abcDEF123 and https://example.org/services/x"
    assert "abcDEF123" not in redact_text(text)
    assert "https://example.org/services/x" in redact_text(text)
