#!/usr/bin/env bash
# The wheel, installed in a clean environment, imports and answers: bash tests/wheel.sh PYTHON
set -euo pipefail
python=${1:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work/dist" .
"$python" -m venv "$work/clean"
clean="$work/clean/bin"
"$clean/python" -m pip install --quiet --disable-pip-version-check --constraint requirements.txt "$work"/dist/pacoh-*.whl

cd "$work" # away from the sources: what is imported is what was installed
export XDG_CACHE_HOME="$work/cache"
"$clean/python" - <<'PY'
from importlib.metadata import version
from importlib.resources import files

import pacoh

assert pacoh.__version__ == version("pacoh"), (pacoh.__version__, version("pacoh"))
assert (files("pacoh") / "py.typed").is_file(), "the wheel has no py.typed"
import pacoh.testing  # ships, and needs no pytest
PY
"$clean/pacoh" --help > /dev/null
"$clean/pacoh" list > /dev/null
"$clean/pacoh" bench list > /dev/null # the experiments ship
echo "The wheel installs, imports and answers."
