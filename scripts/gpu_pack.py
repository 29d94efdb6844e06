"""Packs what a bare GPU machine without network lacks into one folder, which git ignores and which travels with a copy.

    python -m scripts.gpu_pack [--out build/gpu] [--triton FOLDER] --data FOLDER ... -- CONFIGURATION ...

The wheels of the packages that an image with PyTorch, PyG and the usual scientific packages does not have; the FOLDERs
of ``$GRAPHBENCH_DATA``, such as ``ZINC peptides-functional``; kernels that ``scripts.gpu_kernels`` has compiled; and
the cache of the CONFIGURATIONS, prepared here: data sets read, encodings computed. ``source build/gpu/setup.sh`` on
that machine installs, unpacks and sets the variables:

    source build/gpu/setup.sh && python -m scripts.gpu_check FOLDER    # in the root of the checkout

A CONFIGURATION may also be ``format/name``, such as ``OGB/peptides-functional``: the data set without encodings, which
are computed there. More than ``--most`` MiB are refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from graphbench.command_line import CommandParser

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ("lightning-fabric", "lightning-utilities", "yacs")
PYTHON = "3.12"
SETUP = """\
# To be sourced on the machine that the folder was carried to: see scripts/gpu_pack.py.
_packed="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
_unpacked="${TMPDIR:-/tmp}/graphbench"
python3 -m pip install -q --no-index --no-deps "$_packed"/wheels/*.whl
# By Python, because tar asks for xz, which a bare machine may lack.
[ -d "$_unpacked" ] || { python3 -m tarfile --filter data -e "$_packed/data.tar.xz" "$_unpacked.part" \\
  && mv "$_unpacked.part" "$_unpacked"; }
export GRAPHBENCH_DATA="$_unpacked/data" GRAPHBENCH_CACHE="$_unpacked/cache" TRITON_CACHE_DIR="$_unpacked/triton"
export PYTHONPATH="$PWD"
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Packs, and says how much it is; 1 where it is too much, 2 where something could not be prepared."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("configurations", nargs="*", metavar="CONFIGURATION", help="file below configs/")
    parser.add_argument("--out", type=Path, default=ROOT / "build/gpu", metavar="DIR", help="default: build/gpu")
    parser.add_argument("--data", nargs="*", default=[], metavar="FOLDER", help="of $GRAPHBENCH_DATA")
    parser.add_argument("--triton", type=Path, metavar="FOLDER", help="with compiled kernels")
    parser.add_argument("--most", type=int, default=56, metavar="MIB", help="default: %(default)s")
    options = parser.parse_args(arguments)
    source = Path(os.environ.get("GRAPHBENCH_DATA", ROOT / "datasets"))
    missing = [name for name in options.data if not (source / name).is_dir()]
    if missing:
        parser.error(
            f"{source} has no {', '.join(missing)}; it has {', '.join(sorted(x.name for x in source.iterdir()))}"
        )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "setup.sh").write_text(SETUP, encoding="utf-8")
    if download(options.out / "wheels") or pack(
        options.out / "data.tar.xz", source, options.data, options.configurations, options.triton
    ):
        return 2
    size = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file()) / 2**20
    print(f"{options.out}: {size:.1f} MiB of at most {options.most}")
    return int(size > options.most)


def download(folder: Path) -> int:
    """Wheels for the other machine's Python, in the versions that were tested; the exit code of pip."""
    which = ["--no-deps", "--only-binary=:all:", "--python-version", PYTHON, "-c", str(ROOT / "constraints.txt")]
    command = [sys.executable, "-m", "pip", "download", "-q", *which, "-d", str(folder), *WHEELS]
    return subprocess.run(command, check=False).returncode


def pack(
    file: Path, source: Path, folders: Sequence[str], configurations: Sequence[str], kernels: Path | None = None
) -> int:
    """Raw data as ``data/``, what was prepared from it as ``cache/``, kernels as ``triton/``; preparing's exit code."""
    with tempfile.TemporaryDirectory() as cache:
        if configurations:
            command = [sys.executable, "scripts/prepare.py", "--offline", *configurations]
            environment = os.environ | {"GRAPHBENCH_DATA": str(source), "GRAPHBENCH_CACHE": cache}
            code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
            if code:
                return code
        with tarfile.open(file, "w:xz", preset=2) as archive:
            for name in folders:
                archive.add(source / name, f"data/{name}")
            if kernels is not None:
                archive.add(kernels, "triton")
            archive.add(cache, "cache", filter=lambda member: None if member.name.endswith(".lock") else member)
    return 0


if __name__ == "__main__":
    sys.exit(main())
