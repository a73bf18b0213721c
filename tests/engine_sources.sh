#!/usr/bin/env bash
# Make an environment with the Python sources of an engine for inference, without what it has compiled for GPUs:
#   engine_sources.sh ENVIRONMENT TORCH PACKAGE VERSION SUFFIX DEPENDENCY...
# TORCH: the environment whose packages it uses. SUFFIX: what the version of its build for CPUs has behind the number.
set -euo pipefail
made=$1 torch=$(realpath "$2") package=$3 version=$4 suffix=$5
shift 5
echo "== installing the sources of $package into $made (a few minutes, once)"
"${PYTHON:-python3}" -m venv "$made"
packages=$(echo "$made"/lib/python3.*/site-packages)
echo "$torch"/lib/python3.*/site-packages >"$packages/torch.pth"
pip() { "$made/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install --no-compile "$@" 2>/dev/null
pip install --no-deps --editable .
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip download --no-deps --only-binary :all: --dest "$folder" "$package==$version"
"$made/bin/python" - "$folder" "$packages" "$package-$version" "$suffix" <<'PYTHON'
import sys, zipfile
from pathlib import Path

folder, packages, name, suffix = sys.argv[1:]
with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
    wheel.extractall(packages, [one for one in wheel.namelist() if not one.endswith((".so", ".cu", ".cuh"))])
metadata = Path(packages, f"{name}.dist-info", "METADATA")
version = name.rpartition("-")[2]
metadata.write_text(metadata.read_text().replace(f"\nVersion: {version}\n", f"\nVersion: {version}{suffix}\n", 1))
PYTHON
