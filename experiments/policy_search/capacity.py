#!/usr/bin/env python3
"""Measures what the default policy can serve in each workload on each system.

Usage: experiments/policy_search/capacity.py [SET]... [--check] [--binary FILE]

SET      search, judge, or another folder with experiments and systems.csv (default: both)
--check  writes nothing, and fails if a value differs by more than 1 %

Writes SET/capacity.csv: requests per second, if all of 2,000 requests come at once (with sessions:
50 a second). `twinserve judge` multiplies them by its loads. Exit codes: 0 success; 1 --check found
a difference, or a run failed.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REQUESTS = 2000


def capacity(binary, experiment, system):
    """Requests per second until the last one is served."""
    sessions = "sessions" in experiment.read_text(encoding="utf-8")
    arrivals = "kind: poisson rate: 50" if sessions else "kind: all_at_once"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([binary, "run", experiment, "--set", f"workload.arrivals={{{arrivals}}}",
                        "--set", f"workload.requests={REQUESTS}",
                        "--set", f"system.model=\"{system['model']}\"",
                        "--set", f"system.hardware=\"{system['hardware']}\"",
                        "--set", f"cost={system['cost']}", "--set", "seed=1",
                        "--out", f"{folder}/run"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
    return summary["completed"] / summary["simulated_seconds"]


def rows_of(binary, folder):
    """Rows of capacity.csv."""
    with open(folder / "systems.csv", encoding="utf-8", newline="") as file:
        systems = list(csv.DictReader(file))
    for experiment in sorted(folder.glob("[!_]*.textproto")):
        for system in systems:
            value = capacity(binary, experiment, system)
            yield {"workload": experiment.stem, "system": system["system"],
                   "requests_per_s": f"{value:.3g}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sets", nargs="*", default=["search", "judge"])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--binary", default=ROOT / "build/release/apps/twinserve")
    arguments = parser.parse_args()
    differs = False
    for name in arguments.sets:
        folder = HERE / name if (HERE / name).is_dir() else pathlib.Path(name)
        path = folder / "capacity.csv"
        rows = list(rows_of(arguments.binary, folder))
        if not arguments.check:
            with open(path, "w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
            print(f"wrote {path}")
            continue
        with open(path, encoding="utf-8", newline="") as file:
            known = list(csv.DictReader(file))
        for row, old in zip(rows, known, strict=True):
            if abs(float(row["requests_per_s"]) / float(old["requests_per_s"]) - 1) > 0.01:
                print(f"{path}: {old} is {row['requests_per_s']} now")
                differs = True
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
