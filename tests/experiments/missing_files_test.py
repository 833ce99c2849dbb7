#!/usr/bin/env python3
"""Checks that experiments and the paper fail, with the reason, when a file they need is missing.

Usage: tests/experiments/missing_files_test.py SOURCE_DIR

Also checks that no experiment names a file outside the repository, and that each file it names
exists. Needs no binary: the scripts look for their input first.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FILE_FIELD = re.compile(r'\b(?:base|\w*path|model|hardware)\s*:\s*"([^"]+)"')
# Arguments, and what the message must name. {empty}: a folder with nothing in it.
MISSING = [
    (["experiments/azure_code/run", "--binary", "{program}"], "traces/data/azure2023_code.csv.gz"),
    (["experiments/azure_code/run", "check", "--binary", "{empty}/none"], "azure2023_code.csv.gz"),
    (["checks/recorded_decisions/run", "--cases", "{empty}/none"], "{empty}/none"),
    (["checks/recorded_decisions/run", "--cases", "{empty}", "--binary", "{program}"],
     "{empty}/{variant}.ndjson"),
    (["experiments/speed/measure", "--binary", "{empty}/none"], "{empty}/none"),
    (["checks/claims/run", "--binary", "{empty}/none"], "{empty}/none"),
    (["checks/fidelity/run", "{empty}", "--binary", "{program}"], "{empty}"),
    (["checks/fidelity/run", "{empty}", "--binary", "{empty}/none"], "{empty}/none"),
    (["checks/referee/run", "--import", "{empty}"], "{empty}"),
    (["checks/referee/run", "--simulator", "twinserve", "--binary", "{empty}/none"],
     "{empty}/none"),
    (["checks/fidelity/saturated", "--binary", "{empty}/none"], "{empty}/none"),
    (["experiments/validate_all", "experiments/cpu_validation", "--binary", "{empty}/none"],
     "{empty}/none"),
    (["experiments/validate_all", "{empty}"], "_workload.textproto"),
    (["checks/peers/run", "--binary", "{empty}/none"], "{empty}/none"),
    (["checks/quantisation/run", "--binary", "{empty}/none"], "{empty}/none"),
    (["checks/gpu_check/run", "--binary", "{empty}/none"], "twinserve"),
    (["experiments/run_stale.py", "{empty}/none", "{empty}/out",
      "experiments/quickstart/orca.textproto"], "{empty}/none"),
]

failures = []


def expect(fact, what):
    if not fact:
        failures.append(what)
        print(f"FAILED {what}")


def check_messages(source):
    """Each script in a copy of experiments/, plots/ and the recorded cases, without the trace."""
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        for folder in ("checks", "experiments", "plots"):
            shutil.copytree(source / folder, root / folder,
                            ignore=shutil.ignore_patterns("__pycache__", "results"))
        (root / "empty").mkdir()
        shutil.copytree(source / "tests/golden/cases", root / "tests/golden/cases")
        variant = min(file.stem for file in (source / "tests/golden/cases").glob("*.ndjson"))
        values = {"empty": root / "empty", "program": "/bin/true", "variant": variant}
        for arguments, named in MISSING:
            command = [word.format(**values) for word in arguments]
            done = subprocess.run([sys.executable, *command], cwd=root, capture_output=True,
                                  text=True, check=False, timeout=60)
            named, said = named.format(**values), done.stderr.strip()
            what = f"{' '.join(arguments)}: exit code {done.returncode}, '{said}'"
            expect(done.returncode != 0, f"{what}: must not succeed")
            expect(named in said, f"{what}: must name {named}")
            expect("Traceback" not in said, f"{what}: must be a message, not a traceback")


def check_named_files(source):
    for file in sorted([*(source / "checks").rglob("*.textproto"),
                        *(source / "experiments").rglob("*.textproto")]):
        for name in FILE_FIELD.findall(file.read_text(encoding="utf-8")):
            if "/" not in name and not name.endswith(".textproto"):
                continue  # a preset
            target = (file.parent / name).resolve()
            expect(target.is_relative_to(source), f"{file}: {name} is outside the repository")
            expect(target.exists(), f"{file}: {name} does not exist")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[1]).resolve()
    check_messages(source)
    check_named_files(source)
    if failures:
        sys.exit(f"missing_files_test: {len(failures)} checks failed")
    print("missing_files_test: passed")


if __name__ == "__main__":
    main()
