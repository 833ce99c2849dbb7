"""Runs a program to its end and measures how much of the machine other programs used meanwhile."""
import os
import pathlib
import subprocess
import time
import typing

FOREIGN_MOST = 0.05  # share of the machine above which a measurement is repeated


class Turn(typing.NamedTuple):
    output: str
    foreign: float  # share of the machine that other processes used
    peak_mib: float  # the program's largest resident memory


def busy_seconds():
    """CPU seconds that all processes of the machine, and its neighbours (steal), have used."""
    fields = [int(part) for part in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    user, nice, system, _idle, _wait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def turn(command):
    """Raises RuntimeError if the program fails."""
    begin, before = time.monotonic(), busy_seconds()
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                          text=True) as process:
        text = process.stdout.read()
        _, status, use = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    seconds = time.monotonic() - begin
    foreign = busy_seconds() - before - use.ru_utime - use.ru_stime
    return Turn(text, max(0.0, foreign / seconds / os.cpu_count()), use.ru_maxrss / 1024)


def quiet_turn(command, patience):
    """The turn that others disturbed least, of at most `patience`; the first undisturbed one."""
    best = None
    for _ in range(patience):
        this = turn(command)
        if best is None or this.foreign < best.foreign:
            best = this
        if this.foreign <= FOREIGN_MOST:
            break
    return best
