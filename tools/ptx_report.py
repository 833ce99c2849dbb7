#!/usr/bin/env python3
"""Registers, spills and shared memory of CUDA kernels, as ptxas reports them.

ptx_report.py keep COMMAND...        runs a compiler; what ptxas says goes to OBJECT.ptxas
ptx_report.py show FOLDER            a table of all kernels whose reports lie below the folder
ptx_report.py check FOLDER BUDGETS   fails on more registers or spilled bytes than a kernel's budget,
                                     on a kernel without one, and where ptxas reports a loss of
                                     performance. BUDGETS: kernel,arch,registers,spilled_bytes;
                                     architectures that were not compiled are not checked
ptx_report.py budgets FOLDER         prints budgets as they are now
"""
import csv
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, \d+ bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
# For example if the matrix instructions of FA3 must wait for each other.
LOSS = re.compile(r"ptxas info.*potential performance loss.*", re.IGNORECASE)
SCOPES = re.compile(r"twin::kernels::cuda::|\(anonymous namespace\)::|\bflashinfer::")


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


def reports(folder):
    """The lines of all reports below the folder, file by file."""
    for report in sorted(pathlib.Path(folder).rglob("*.ptxas")):
        yield report.read_text(encoding="utf-8").splitlines()


def demangled(names):
    listed = subprocess.run(["c++filt", "-p"], input="\n".join(names), text=True,
                            capture_output=True, check=True).stdout.splitlines()
    return [SCOPES.sub("", name.removeprefix("void "))
            .replace("__nv_bfloat16", "bf16") for name in listed]


def kernels(folder):
    """(name, arch, registers, spilled bytes, shared bytes) of each kernel."""
    rows = []
    for lines in reports(folder):
        entry, spilled = None, 0
        for line in lines:
            if found := ENTRY.search(line):
                entry, spilled = found.groups(), 0
            elif found := SPILLS.search(line):
                spilled = int(found[1])
            elif (found := USED.search(line)) and entry:
                shared = SHARED.search(line)
                rows.append((*entry, int(found[1]), spilled, int(shared[1]) if shared else 0))
                entry = None
    names = demangled([row[0] for row in rows])
    return sorted((name, *row[1:]) for name, row in zip(names, rows))


def most_used(rows):
    """(kernel, arch) -> the largest numbers of registers and of spilled bytes of its instances."""
    most = {}
    for name, arch, registers, spilled, _ in rows:
        key = (name.split("<")[0], arch)
        before = most.get(key, (0, 0))
        most[key] = (max(before[0], registers), max(before[1], spilled))
    return most


def check(rows, budgets):
    """All violations of the budgets."""
    with open(budgets, encoding="utf-8", newline="") as file:
        allowed = {(row["kernel"], row["arch"]): (int(row["registers"]), int(row["spilled_bytes"]))
                   for row in csv.DictReader(file)}
    found = []
    for (kernel, arch), used in most_used(rows).items():
        if (kernel, arch) not in allowed:
            found.append(f"{kernel} ({arch}): no budget; it takes {used[0]} registers "
                         f"and spills {used[1]} bytes")
            continue
        for what, taken, budget in zip(("registers", "spilled bytes"), used, allowed[kernel, arch]):
            if taken > budget:
                found.append(f"{kernel} ({arch}): {taken} {what}, the budget is {budget}")
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
        print("kernel,arch,registers,spilled_bytes")
        for (kernel, arch), (registers, spilled) in sorted(most_used(rows).items()):
            print(f"{kernel},{arch},{registers},{spilled}")
        return 0
    losses = {line for lines in reports(rest[0]) for line in lines if LOSS.match(line)}
    complaints = check(rows, rest[1]) + sorted(losses)
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
