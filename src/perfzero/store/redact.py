"""
Secrets out of command lines, environments and texts, before they reach a file.

What is removed: values of options and variables whose name says that they are secret
(`--hf-token X`, `wandb.api_key=X`, `HF_TOKEN=X`), keys with a well-known form wherever they
stand (`sk-…`, `hf_…`, `AKIA…`, GitHub, GitLab, Slack and Google tokens, JSON web tokens,
`Bearer …`), passwords and signatures inside URLs, and long random strings given to an option
called something with "key". The name stays, so that the command can still be understood.

A recording must be safe to hand to a colleague, so doubt is resolved towards removing; only
names in daily use that merely sound secret (`--tokenizer`, `--max-tokens`) are left alone.

`anonymous_*` go further, for a recording that is given to strangers: no path, no host name,
no serial number.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence

REMOVED = "<removed>"

# Secret wherever they stand in a name ("db_password_old").
_STRONG = {
    "secret",
    "secrets",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "credential",
    "credentials",
    "jwt",
}
# Secret at the end of a name ("hf-token", but not "token-dim").
_WEAK = {"token", "auth", "authorization", "bearer", "pat", "pwd", "pass", "accesskey", "authtoken", "sas"}
# Makes a "key" at the end of a name secret ("api-key").
_KEY_OWNERS = {"api", "access", "private", "secret", "auth", "encryption", "signing", "account", "license"}

_WELL_KNOWN = re.compile(
    r"""
      \bsk-[A-Za-z0-9_-]{16,}                       # OpenAI, Anthropic
    | \b(?:hf|api_org)_[A-Za-z0-9]{16,}             # Hugging Face
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])    # AWS
    | \bgh[oprsu]_[A-Za-z0-9]{20,}                  # GitHub
    | \bgithub_pat_\w{20,}
    | \bglpat-[\w-]{16,}                            # GitLab
    | \bxox[abeprs]-[\w-]{10,}                      # Slack
    | \bhooks\.slack\.com/services/[\w/]+
    | \bAIza[\w-]{30,}                              # Google
    | \bnvapi-[\w-]{20,}                            # NVIDIA
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*             # JSON web token
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----[\s\S]*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE,
)
_BEARER = re.compile(r"\b(Bearer|Basic)(\s{1,3})[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_HEADER = re.compile(
    r"\b((?:Proxy-)?Authorization|X-[\w-]{0,40}(?:Key|Token))(\s{0,3}:\s{0,3})[^\r\n'\"]+", re.IGNORECASE
)
# The password ends at the last @ of the authority: passwords may hold one themselves.
_URL_LOGIN = re.compile(r"(?<=://)[^\s/?#'\"]+@")
_QUERY = re.compile(
    r"([?&;](?:[\w.-]*(?:token|secret|password|signature|credential|key)|sig|sas)=)[^&#\s'\"]+", re.IGNORECASE
)

# Every expression starts at a boundary or is bounded, so that an argument of 100 KB takes no minute.
_NAME = r"[-+~]*[A-Za-z_][A-Za-z0-9_.\-/@]*"
_ASSIGNED = re.compile(rf"(?<![\w.\-/@+~])(?P<name>{_NAME})[\"']?(?:\s*=|:)\s*")
_FLAG_THEN_VALUE = re.compile(r"(?<![\w-])(?P<name>--?[A-Za-z][\w.\-]*)\s+(?!-)")
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s;&|\"']+")
_BEGINNING = re.compile(r"[\"']?[^\s;&|\"']{0,200}")
_WHOLE_ASSIGNMENT = re.compile(rf"(?P<name>{_NAME})=(?P<value>[\s\S]*)")
_FLAG = re.compile(r"--?[A-Za-z][\w.\-]*")
_RANDOM = re.compile(r"(?=[^/]*[0-9])(?=[^0-9]*[A-Za-z])[A-Za-z0-9+/=_\-]{20,}")

_ENVIRONMENT_PREFIXES = (
    "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "NVTE_", "NCCL_", "UCX_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_",
    "TORCHDYNAMO_", "TRITON_", "XLA_", "JAX_", "VLLM_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_",
    "NUMEXPR_", "MALLOC_", "PYTHON",
    # TensorFlow's one by one: TF_ is Terraform's, too, and there it holds tokens.
    "TF_CPP_", "TF_XLA_", "TF_GPU_", "TF_CUDNN_", "TF_DETERMINISTIC_", "TF_ENABLE_", "TF_DISABLE_",
    "TF_FORCE_", "TF_NUM_", "TF_USE_",
)  # fmt: skip
_ENVIRONMENT_NAMES = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "LD_PRELOAD",
    "TOKENIZERS_PARALLELISM", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID",
}  # fmt: skip
# Folders of the machine, which say nothing of speed; and two kilobytes of which drivers a container accepts.
_ENVIRONMENT_LEFT_OUT = {
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP",
    "NVIDIA_REQUIRE_CUDA", "NVIDIA_PRODUCT_NAME",
}  # fmt: skip
# A variable is secret with one of these anywhere in its name: there are no options to be understood.
_SECRET_IN_ENVIRONMENT = {"token", "auth", "pass", "pwd", "pw", "cred", "creds", "webhook"}
_RANDOM_IN_ENVIRONMENT = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/=_.\-]{32,}")

LONGEST_VALUE = 1000
"""Characters of an environment variable that are kept: none that tells of speed is longer."""

_PATH = re.compile(r"(?<![\w./])(?:~|\.{1,2})?(?:/[^\s/:;,'\"=()]+)+/?")


def redact_command(argv: Sequence[str]) -> tuple[str, ...]:
    """*argv* with every secret replaced by `REMOVED`; as many arguments as before."""
    result: list[str] = []
    secret_follows: str | None = None
    for argument in argv:
        if secret_follows is not None and not _FLAG.fullmatch(argument):
            result.append(REMOVED if _is_secret(secret_follows, argument) else redact_text(argument))
            secret_follows = None
            continue
        secret_follows = argument if _FLAG.fullmatch(argument) else None
        assigned = _WHOLE_ASSIGNMENT.fullmatch(argument)
        # A whole argument is one value, spaces included; only a shell line has several.
        if assigned and _is_secret(assigned["name"], assigned["value"]):
            result.append(f"{assigned['name']}={REMOVED}")
        else:
            result.append(redact_text(argument))
    return tuple(result)


def redact_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of *variables* that an allow-list calls useful, their secrets replaced by `REMOVED`."""
    kept: dict[str, str] = {}
    for name, value in variables.items():
        useful = name.startswith(_ENVIRONMENT_PREFIXES) or name in _ENVIRONMENT_NAMES
        if not useful or name in _ENVIRONMENT_LEFT_OUT:
            continue
        # Before the expressions see it: one of a megabyte would take seconds.
        value = value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}..."
        random = _RANDOM_IN_ENVIRONMENT.fullmatch(value) and not value.startswith(("/", "GPU-", "MIG-"))
        secret = random or _is_secret(name, value) or _SECRET_IN_ENVIRONMENT.intersection(_words(name))
        kept[name] = REMOVED if secret and value else redact_text(value)
    return kept


def redact_text(text: str) -> str:
    """*text*, a message or a shell line, with every secret in it replaced by `REMOVED`."""
    text = _WELL_KNOWN.sub(REMOVED, text)
    text = _HEADER.sub(rf"\1\2{REMOVED}", text)
    text = _BEARER.sub(rf"\1\2{REMOVED}", text)
    text = _URL_LOGIN.sub(f"{REMOVED}@", text)
    text = _QUERY.sub(rf"\1{REMOVED}", text)
    return _without_values(_FLAG_THEN_VALUE, _without_values(_ASSIGNED, text))


def anonymous_text(text: str, *, names: Iterable[str] = ()) -> str:
    """*text* without secrets, paths cut to their last part, each of *names* (hosts, users) removed."""
    text = _PATH.sub(lambda m: m[0].rstrip("/").rsplit("/", 1)[-1], redact_text(text))
    for name in names:
        if name:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", REMOVED, text)
    return text


def anonymous_uuid(real: str) -> str:
    """A made-up GPU or MIG UUID, the same each time for the same *real* one."""
    prefix = real[:4] if real.startswith(("GPU-", "MIG-")) else ""
    digest = hashlib.sha256(b"perfzero anonymous uuid\0" + real.encode("utf-8", "replace")).digest()
    return prefix + str(uuid.UUID(bytes=digest[:16]))


def _words(name: str) -> list[str]:
    """hf_token, HfToken -> hf, token."""
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _is_secret(name: str, value: str) -> bool:
    words = _words(name)
    if not words or value == "":
        return False
    if _STRONG.intersection(words) or words[-1] in _WEAK:
        return True
    if words[-1] == "key":
        return bool(_KEY_OWNERS.intersection(words)) or bool(_RANDOM.fullmatch(value.strip("\"'")))
    return False


def _without_values(named: re.Pattern[str], text: str) -> str:
    """*text* without the values that follow a secret name, as *named* finds them."""
    parts: list[str] = []
    done = at = 0
    while found := named.search(text, at):
        beginning = _BEGINNING.match(text, found.end())
        secret = beginning and _is_secret(found["name"], beginning[0])
        value = _VALUE.match(text, found.end()) if secret else None
        if value:
            parts += [text[done : value.start()], REMOVED]
            done = at = value.end()
        else:
            # What follows may be a name itself: --env=TOKEN=x, --resume --token x.
            at = found.end("name")
    return "".join([*parts, text[done:]])
