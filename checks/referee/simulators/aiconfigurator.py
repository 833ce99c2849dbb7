"""aiconfigurator 0.12.0 of PyPI (Apache-2.0), NVIDIA's estimator of deployments.

Command:

    python3 -m venv build/aiconfigurator
    build/aiconfigurator/bin/pip install aiconfigurator==0.12.0
    checks/referee/run --simulator aiconfigurator

It answers for one number of requests at a time: `aiconfigurator cli estimate --estimate-mode agg
--backend vllm --system SYSTEM --isl P --osl O --prefix CACHED --batch-size N --tp T`. P and O are
the run's mean lengths, CACHED the mean tokens in the prefix cache, and N the number that Little's
law gives with the answer itself: N = rate x E2E. Compared on the H100 runs, and worse there: two
parts for a run whose rate changes, other budgets of context tokens (`--ctx-tokens`), and `static`
with a prefill of its own (README.md).
"""
import dataclasses
import json
import re
import subprocess

import settings
import workload
from prediction import NotCovered, NotInstalled, Prediction

PYTHON = settings.ROOT / "build/aiconfigurator/bin/python"
POINTS = settings.ROOT / "checks/referee/aiconfigurator_points.py"
SYSTEMS = {"h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "l40s": "l40s",
           "a100-80gb-sxm": "a100_sxm", "b200-sxm": "b200_sxm"}
CLOSED = {"rtx-pro-6000-server"}
NAMES = {"mixtral-8x7b": "mistralai/Mixtral-8x7B-v0.1", "qwen3-32b": "Qwen/Qwen3-32B",
         "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B"}  # whose config.json the package has


def shape(architecture, hidden, layers, heads, kv_heads, inner, vocabulary):
    """The config.json of a dense model."""
    return {"architectures": [f"{architecture}ForCausalLM"], "model_type": architecture.lower(),
            "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": 128, "intermediate_size": inner,
            "vocab_size": vocabulary, "max_position_embeddings": 40960,
            "torch_dtype": "bfloat16", "hidden_act": "silu"}


SHAPES = {"llama-2-7b": shape("Llama", 4096, 32, 32, 32, 11008, 32000),
          "llama-2-70b": shape("Llama", 8192, 80, 64, 8, 28672, 32000),
          "codellama-34b": shape("Llama", 8192, 48, 64, 8, 22016, 32000),
          "yi-34b": shape("Llama", 7168, 60, 56, 8, 20480, 64000),
          "mistral-nemo-12b": shape("Mistral", 5120, 40, 32, 8, 14336, 131072),
          "qwen3-14b": shape("Qwen3", 5120, 40, 40, 8, 17408, 151936)}


def asked_of(run):
    """What aiconfigurator_points.py reads."""
    if run.gpu in CLOSED:
        raise NotCovered(f"the package's tables of {run.gpu} stay closed here, since other checks "
                         "of this project are judged on them")
    if run.gpu not in SYSTEMS:
        raise NotCovered(f"it has no tables of {run.gpu}")
    if run.model not in SHAPES and run.model not in NAMES:
        raise NotCovered(f"{run.model} is not in SHAPES of simulators/aiconfigurator.py")
    return {"model": NAMES.get(run.model, run.model), "config": SHAPES.get(run.model),
            "experts": run.model == "mixtral-8x7b", "system": SYSTEMS[run.gpu],
            "tensor": run.tensor, "most": int(re.search(r"max_num_seqs: (\d+)", run.policy)[1]),
            "load": dataclasses.asdict(workload.load_of(run))}


def identity():
    return POINTS.read_text() + (POINTS.parent / "workload.py").read_text()


def predict(run):
    asked = asked_of(run)
    if not PYTHON.is_file():
        raise NotInstalled("python3 -m venv build/aiconfigurator && build/aiconfigurator/bin/pip "
                           "install aiconfigurator==0.12.0")
    done = subprocess.run([str(PYTHON), "-I", str(POINTS)], input=json.dumps(asked),
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return Prediction(*json.loads(done.stdout.splitlines()[-1]))
