#!/usr/bin/env python3
"""Hands in every file of cheats/ and prints how the judge answers.

Usage: experiments/policy_search/caught.py [NAME]... [--check] [--full]

NAME     files of cheats/, without .py (default: all)
--check  fails if a verdict is not the one of cheats.csv
--full   all cells and worlds of a submission, in place of a sixth of them

Needs the Python package: the command twinserve on the path, or TWINSERVE="python -m twinserve".
Exit codes: 0 success; 1 --check found another verdict, or the judge failed.
"""
import argparse
import csv
import json
import os
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
QUICKLY = ("--cells", "1", "--rounds", "2", "--rounds-max", "2", "--hostile", "100")


def judged(path, options):
    """The verdict on a file, as a word and its reason."""
    command = shlex.split(os.environ.get("TWINSERVE", "twinserve"))
    done = subprocess.run([*command, "judge", path, "--seed", "7", *options],
                          stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(1)
    verdict = json.loads(done.stdout)
    if not verdict["valid"]:
        return verdict["gate"], verdict["reason"], verdict["cpu_s"]
    better = verdict["against"][0]["verdict"] == "better"
    paid = ", ".join(f"{trade['class']} {trade['log_ratio']:+.2f}" for trade in verdict["trades"])
    return "better" if better else "no gain", f"pays: {paid}" if paid else "", verdict["cpu_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    with open(HERE / "cheats.csv", encoding="utf-8", newline="") as file:
        expected = {row["cheat"]: row["verdict"] for row in csv.DictReader(file)}
    names = arguments.names or sorted(path.stem for path in (HERE / "cheats").glob("*.py"))
    differs = [name for name in names if name not in expected]
    for name in names:
        verdict, reason, cpu_s = judged(HERE / "cheats" / f"{name}.py",
                                        () if arguments.full else QUICKLY)
        print(f"{name:<18}{verdict:<9}{cpu_s:5.1f} s  {reason}", flush=True)
        if verdict != expected.get(name):
            differs.append(name)
    if arguments.check and differs:
        print(f"caught: other verdicts than in cheats.csv: {', '.join(differs)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
