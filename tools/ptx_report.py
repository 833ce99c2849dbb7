#!/usr/bin/env python3
"""Registers, spills and shared memory of CUDA kernels, as ptxas reports them.

ptx_report.py keep COMMAND...        runs a compiler; what ptxas says goes to OBJECT.ptxas
ptx_report.py show FOLDER            a table of all kernels whose reports lie below the folder
ptx_report.py check FOLDER BUDGETS   fails on a spill, on more registers than a kernel's budget, and
                                     on a kernel without one (BUDGETS: kernel,arch,registers)
ptx_report.py budgets FOLDER         prints budgets as they are now
"""
import csv
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
OURS = "4twin7kernels4cuda"  # libraries keep budgets of their own
SHARED = re.compile(r"(\d+) bytes smem")


def keep(command):
    """Runs the command; returns its exit status."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    lines = done.stderr.splitlines(keepends=True)
    reported = [line for line in lines if line.startswith("ptxas info") or SPILLS.search(line)]
    sys.stderr.writelines(line for line in lines if line not in reported)
    if "-o" in command and done.returncode == 0:
        report = pathlib.Path(command[command.index("-o") + 1] + ".ptxas")
        report.write_text("".join(reported), encoding="utf-8")
    return done.returncode


def demangled(names):
    listed = subprocess.run(["c++filt", "-p"], input="\n".join(names), text=True,
                            capture_output=True, check=True).stdout.splitlines()
    return [re.sub(r"twin::kernels::cuda::|\(anonymous namespace\)::", "", name)
            .replace("__nv_bfloat16", "bf16").replace("__half", "fp16") for name in listed]


def kernels(folder):
    """(name, arch, registers, spilled bytes, shared bytes) of each of twinserve's kernels."""
    rows = []
    for report in sorted(pathlib.Path(folder).rglob("*.ptxas")):
        entry, spilled = None, 0
        for line in report.read_text(encoding="utf-8").splitlines():
            if found := ENTRY.search(line):
                entry, spilled = found.groups() if OURS in found[1] else None, 0
            elif found := SPILLS.search(line):
                spilled = int(found[2]) + int(found[3])
            elif (found := USED.search(line)) and entry:
                shared = SHARED.search(line)
                rows.append((*entry, int(found[1]), spilled, int(shared[1]) if shared else 0))
                entry = None
    names = demangled([row[0] for row in rows])
    return sorted((name, *row[1:]) for name, row in zip(names, rows))


def most_registers(rows):
    """(kernel, arch) -> the largest number of registers of its instances."""
    most = {}
    for name, arch, registers, _, _ in rows:
        key = (name.split("<")[0], arch)
        most[key] = max(most.get(key, 0), registers)
    return most


def check(rows, budgets):
    """All violations of the budgets."""
    with open(budgets, encoding="utf-8", newline="") as file:
        allowed = {(row["kernel"], row["arch"]): int(row["registers"]) for row in csv.DictReader(file)}
    found = [f"{name} ({arch}): {spilled} bytes of spills"
             for name, arch, _, spilled, _ in rows if spilled]
    for (kernel, arch), registers in most_registers(rows).items():
        if (kernel, arch) not in allowed:
            found.append(f"{kernel} ({arch}): no budget; it takes {registers} registers")
        elif registers > allowed[kernel, arch]:
            found.append(f"{kernel} ({arch}): {registers} registers, "
                         f"the budget is {allowed[kernel, arch]}")
    return found or ([] if rows else ["no report: nothing was compiled"])


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("keep", "show", "check", "budgets"):
        sys.exit(__doc__)
    mode, *rest = arguments
    if mode == "keep":
        return keep(rest)
    rows = kernels(rest[0])
    if mode == "show":
        print(f"{'arch':8}{'registers':>10}{'spilled':>8}{'shared':>8}  kernel")
        for name, arch, registers, spilled, shared in rows:
            print(f"{arch:8}{registers:10}{spilled:8}{shared:8}  {name}")
        return 0
    if mode == "budgets":
        print("kernel,arch,registers")
        for (kernel, arch), registers in sorted(most_registers(rows).items()):
            print(f"{kernel},{arch},{registers}")
        return 0
    complaints = check(rows, rest[1])
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
