"""Runs in the environment of aiconfigurator: reads a run's load from stdin, prints its latencies.

stdin: what asked_of() of simulators/aiconfigurator.py returns. stdout: [TTFT, TPOT, E2E] in ms.
"""
import json
import logging
import pathlib
import shutil
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import workload  # noqa: E402 (its folder comes first)

warnings.filterwarnings("ignore", category=DeprecationWarning)
logging.disable(logging.WARNING)
import aiconfigurator_core  # noqa: E402 (its warnings are off)
from aiconfigurator.cli.api import cli_estimate  # noqa: E402


def write_config(asked, folder):
    """The package reads names of models from a hub; a folder with config.json needs none."""
    bundled = (pathlib.Path(aiconfigurator_core.__file__).parent / "model_configs"
               / f"{asked['model'].replace('/', '--')}_config.json")
    if asked["config"] is None:
        shutil.copy(bundled, f"{folder}/config.json")
    else:
        pathlib.Path(folder, "config.json").write_text(json.dumps(asked["config"]))


def latencies(asked, load, folder):
    """latencies_at(n) of workload.settled, with each point estimated once."""
    known = {}
    experts = {"moe_tp_size": asked["tensor"], "moe_ep_size": 1} if asked["experts"] else {}

    def latencies_at(n):
        if n not in known:
            found = cli_estimate(folder, asked["system"], mode="agg", backend_name="vllm",
                                 isl=round(load.prompt), osl=round(load.output), batch_size=n,
                                 prefix=round(load.cached), tp_size=asked["tensor"], **experts)
            known[n] = float(found.ttft), float(found.tpot)
        return known[n]
    return latencies_at


def main():
    asked = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        write_config(asked, folder)
        load = workload.Load(**asked["load"])
        found = workload.settled(latencies(asked, load, folder), load, asked["most"])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
