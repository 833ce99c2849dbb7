#!/usr/bin/env bash
# `pip install .` in a fresh environment, and a run with what it installed.
# Usage: pip_install_test.sh SOURCE PYTHON FOLDER
set -euo pipefail
cd "$1"
environment=$3/environment
rm -rf "$environment"
"$2" -m venv "$environment"
"$environment/bin/python" -m pip --disable-pip-version-check --no-input install ".[tables]"
cd "$3"
"$environment/bin/python" - "$1" <<'PYTHON'
import sys
import twinserve
run = twinserve.run(f"{sys.argv[1]}/experiments/quickstart/vllm_v1.textproto", {"workload.requests": 50})
assert run.summary["completed"] == len(run.requests) == 50, run
PYTHON
