#!/usr/bin/env python3
"""Searches for a scheduling policy: mutates the weights of an order, and lets the judge decide.

Usage: experiments/policy_search/search.py [--seed N] [--candidates N] [--sets] [--out DIR]

One parent and one child at a time, Gaussian steps, restarts. Each candidate is a file that
`twinserve judge --quick` scores by mean E2E on slots.textproto; one that beats its parent is judged in
full there, and the best one of all on slots_judge.textproto, which the search never sees. --sets: by
the judge's own score on the sets search and judge. DIR/log.jsonl has one line per candidate; the same
command goes on from there. Needs the Python package: the command twinserve on the path, or
TWINSERVE="python -m twinserve". Exit codes: 0 success; 1 the judge failed.
"""
import argparse
import json
import math
import os
import pathlib
import random
import resource
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FEATURES = ("arrival", "prompt", "predicted", "remaining", "generated")
CANDIDATE = '''"""A candidate of experiments/policy_search/search.py."""
import sys

sys.path.insert(0, {folder!r})
from weighted import Weighted


class Candidate(Weighted):
    sequences_per_step_max = {sequences}
{weights}
'''


def judge(path, *options):
    """The verdict on a file."""
    command = shlex.split(os.environ.get("TWINSERVE", "twinserve"))
    done = subprocess.run([*command, "judge", path, *options], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(1)
    return json.loads(done.stdout)


def write(path, weights, sequences):
    """Writes a candidate."""
    lines = "\n".join(f"    {name} = {value!r}" for name, value in zip(FEATURES, weights))
    path.write_text(CANDIDATE.format(folder=str(HERE), weights=lines, sequences=sequences),
                    encoding="utf-8")
    return path


def mutated(weights, step, rng):
    """Weights nearby, of length 1: an order does not depend on their scale."""
    moved = [value + rng.gauss(0, step) for value in weights]
    length = math.hypot(*moved) or 1
    return [value / length for value in moved]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--sets", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/policy_search"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = arguments.out / "log.jsonl"
    known = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    where, elsewhere, sequences, rounds = ("--on", "search"), ("--on", "judge"), 256, ()
    if not arguments.sets:
        where, elsewhere = (("--experiment", HERE / f"{name}.textproto", "--metric", "mean_e2el_ms")
                            for name in ("slots", "slots_judge"))
        sequences, rounds = 32, ("--rounds", "10", "--rounds-max", "10")
    rng = random.Random(arguments.seed)
    parent, parent_score, best, failures = [1.0, 0, 0, 0, 0], -math.inf, None, 0
    for number in range(arguments.candidates):
        weights = mutated(parent, 0.5, rng) if number else parent
        path = write(arguments.out / f"candidate_{number:03}.py", weights, sequences)
        if number < len(known):
            entry = known[number]
        else:
            verdict = judge(path, *where, "--seed", str(arguments.seed), "--quick")
            entry = {"number": number, "weights": weights, "score": verdict["score"],
                     "reason": verdict["reason"]}
            if verdict["valid"] and verdict["score"] > parent_score:
                full = judge(path, *where, *rounds, "--seed", str(arguments.seed + 1),
                             "--submission", str(number + 1))
                entry["full"] = {key: full[key] for key in ("valid", "reason", "score", "interval")}
                if not full["valid"]:
                    entry["score"], entry["reason"] = None, full["reason"]
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        failures += 1
        if entry["score"] is not None and entry["score"] > parent_score:
            parent, parent_score, failures = weights, entry["score"], 0
            print(f"{number:3}  {parent_score:.3f}  "
                  + "  ".join(f"{n} {w:+.2f}" for n, w in zip(FEATURES, weights)), flush=True)
            if best is None or parent_score > best[0]:
                best = (parent_score, path)
        elif failures == 20:
            parent, parent_score, failures = mutated([0] * len(FEATURES), 1, rng), -math.inf, 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"search: {used.ru_utime + used.ru_stime:.1f} CPU s")
    print(json.dumps(judge(best[1], *elsewhere, *rounds, "--seed", str(arguments.seed + 2),
                           "--submission", str(arguments.candidates)), indent=1))


if __name__ == "__main__":
    main()
