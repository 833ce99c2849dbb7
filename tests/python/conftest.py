"""What the tests of the Python package share."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "experiments/quickstart/vllm_v1.textproto"

# One request after the other on a device whose steps take exactly 1 ms.
TINY = """
seed: 1
workload {
  requests: 100
  arrivals { kind: constant rate: 50 }
  shape { prompt { kind: fixed value: 64 } output { kind: fixed value: 8 } }
}
policy { vllm_v1 { max_num_batched_tokens: 512 max_num_seqs: 16 max_model_len: 512 } }
system {
  model: "llama-2-7b" hardware: "a100-80gb-sxm"
  memory { blocks_override: 64 max_model_length: 512 }
}
cost { constant { step_s: 1e-3 } }
"""


@pytest.fixture
def quickstart():
    return QUICKSTART


@pytest.fixture
def tiny():
    return TINY


@pytest.fixture(scope="session")
def command_line():
    """Calls the program that was built beside the package; returns the finished process."""
    def call(*arguments, check=True):
        return subprocess.run([os.environ["TWINSERVE"], *map(str, arguments)], cwd=ROOT,
                              check=check, capture_output=True, text=True)
    return call
