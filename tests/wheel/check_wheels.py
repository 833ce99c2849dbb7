#!/usr/bin/env python3
"""Checks the wheels of tools/wheel in fresh environments of the Pythons that are here.

Usage: tests/wheel/check_wheels.py FOLDER PROGRAM

Each wheel: its name, size, files and licences. In a fresh environment of each Python that takes it:
it installs alone; its libraries need those of every Linux system and its own; the
command runs without numpy and pandas, and decides as PROGRAM does; `report` draws its page;
uninstalled, it leaves nothing. In one environment, with the extra plots: a figure and all notebooks.
They are left out, with a note, where pip cannot install matplotlib.
"""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BYTES_MAX = 10_000_000
NAME = re.compile(r"twinserve-[\w.+]+-(cp311-cp311|cp312-abi3)-manylinux_2_34_x86_64\.whl")
EVERYWHERE = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1",
              "ld-linux-x86-64.so.2", "libstdc++.so.6", "libz.so.1", "linux-vdso.so.1"}
LICENCES = {"Boost", "CLI11", "Eigen", "Protobuf", "fmt", "libgomp", "muParser", "nanobind",
            "nlohmann-json", "robin-map"}
CHANGES = ("--set", "workload.requests=500")
MODULES = "import sys, twinserve; twinserve.Run; print(sorted({'numpy', 'pandas'} & set(sys.modules)))"

# The first cell installs the package.
RUN_NOTEBOOK = """
import json, sys
names = {"__name__": "__main__"}
cells = [cell for cell in json.load(open(sys.argv[1]))["cells"] if cell["cell_type"] == "code"]
for cell in cells[1:]:
    exec("".join(cell["source"]), names)
"""

failures = []


def expect(fact, what):
    print(f"{'ok    ' if fact else 'FAILED'} {what}", flush=True)
    if not fact:
        failures.append(what)


def done(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)


def pythons():
    """Interpreters here by minor version of Python 3."""
    found = {}
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for minor in range(11, 16):
        names = [f"python3.{minor}", *sorted(glob.glob(f"{root}/versions/3.{minor}.*/bin/python3"))]
        for name in names:
            if not shutil.which(name):
                continue
            asked = done(name, "-c", "import ensurepip, sys, venv; print(sys.version_info[1])")
            if asked.stdout == f"{minor}\n":
                found.setdefault(minor, name)
    return found


def check_file(wheel):
    expect(NAME.fullmatch(wheel.name), f"{wheel.name} has the name of one of the two wheels")
    size = wheel.stat().st_size
    expect(size < BYTES_MAX, f"{size / 1e6:.2f} MB, under {BYTES_MAX / 1e6:.0f}")
    with zipfile.ZipFile(wheel) as opened:
        names = [name for name in opened.namelist() if not name.endswith("/")]
    listed = [line for line in (SOURCE / "apps/python/package_data.txt").read_text().splitlines()
              if not line.startswith("#")]
    held = [name for name in names if name.startswith(("twinserve/data/", "twinserve/plots/"))]
    expect(len(held) == len(listed) and not any("/expected/" in name for name in names),
           f"holds the {len(listed)} files of package_data.txt")
    licences = {pathlib.PurePath(name).stem for name in names if ".dist-info/licenses/" in name}
    expect(licences >= LICENCES | {"LICENSE"}, f"holds licences of {', '.join(sorted(licences))}")
    native = [name for name in names if "/_native." in name and name.endswith(".so")]
    suffix = ".abi3.so" if "-abi3-" in wheel.name else ".cpython-311-x86_64-linux-gnu.so"
    expect(native == [f"twinserve/_native{suffix}"], f"has the module {', '.join(native)}")


def files_below(environment):
    return {path for path in environment.rglob("*") if "__pycache__" not in path.parts}


def check_libraries(site):
    own = {path.name for path in (site / "twinserve.libs").iterdir()}
    needed = set()
    for library in [*site.glob("twinserve/_native*.so"), *(site / "twinserve.libs").iterdir()]:
        listed = done("ldd", library).stdout
        needed |= {pathlib.PurePath(line.split()[0]).name for line in listed.splitlines() if line.strip()}
    others = sorted(needed - EVERYWHERE - own)
    expect(not others, f"needs no library of others ({', '.join(others) or 'none'})")


def check_run(environment, folder, digest):
    command = environment / "bin/twinserve"
    version = done(command, "--version", cwd=folder)
    expect(version.returncode == 0, f"--version: {version.stdout.strip()}{version.stderr.strip()}")
    begin = time.monotonic()
    ran = done(command, "run", "quickstart/vllm_v1", *CHANGES, "--out", folder / "run", cwd=folder)
    seconds = time.monotonic() - begin
    summary = folder / "run/summary.json"
    made = json.loads(summary.read_text())["digest"] if summary.exists() else ran.stderr.strip()
    expect(made == digest, f"quickstart/vllm_v1 in {seconds:.2f} s: digest {made}, of the program {digest}")
    loaded = done(environment / "bin/python", "-c", MODULES, cwd=folder)
    expect(loaded.stdout == "[]\n", f"loads neither numpy nor pandas {loaded.stderr.strip()}")
    reported = done(command, "report", "run", "--out", "report.html", cwd=folder)
    page = folder / "report.html"
    expect(page.exists() and "Plotly" in page.read_text(), f"report draws a page {reported.stderr.strip()}")
    lacking = done(environment / "bin/python", "-c", "import twinserve; twinserve.compare", cwd=folder)
    expect(lacking.stderr.rstrip().endswith('allowed: pip install "twinserve[tables]"'),
           "names the extra that tables need")
    absent = done(command, "serve", "x", cwd=folder)
    expect(absent.returncode == 2 and "not in the wheel" in absent.stderr and
           absent.stderr.count("\n") == 1, f"serve: {absent.stderr.strip()}")


def version_of(environment):
    return done(environment / "bin/twinserve", "--version").stdout.split()[1]


def check_doctor(environment, folder):
    command = environment / "bin/twinserve"
    told = done(command, "doctor", cwd=folder)
    expect("this is the wheel" in told.stdout and "extras    none; not installed: tables" in told.stdout,
           f"doctor says that it is the wheel, without extras {told.stderr.strip()}")
    known = json.loads(done(command, "doctor", "--format", "json", cwd=folder).stdout)
    expect(known["wheel"] and known["version"] == version_of(environment), f"doctor: version {known['version']}")
    absent = [name for name in known["lacks"] if "not in the wheel" in done(command, name, cwd=folder).stderr]
    expect(absent and absent == known["lacks"], f"lacks {', '.join(known['lacks'])}")


def check_figure(environment, wheel, folder):
    pip = (environment / "bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input")
    installed = done(*pip, "install", "--only-binary", ":all:", f"twinserve[plots] @ {wheel.as_uri()}")
    if installed.returncode != 0:
        print(f"left out: a figure, as pip cannot install matplotlib: {installed.stderr.strip()[-200:]}")
        return
    begin = time.monotonic()
    drawn = done(environment / "bin/twinserve", "plot", "latency_cdf", "run", "--out", "figure.pdf", cwd=folder)
    seconds = time.monotonic() - begin
    figure = folder / "figure.pdf"
    expect(figure.exists() and figure.read_bytes().startswith(b"%PDF"),
           f"draws latency_cdf in {seconds:.1f} s {drawn.stderr.strip()}")
    table = done(environment / "bin/python", "-c", "import twinserve; "
                 "print(len(twinserve.run('quickstart/vllm_v1', {'workload.requests': 50}).requests))",
                 cwd=folder)
    expect(table.stdout == "50\n", f"gives tables {table.stderr.strip()[-200:]}")
    check_notebooks(environment, folder)


def check_notebooks(environment, folder):
    """All notebooks run outside of the source tree."""
    for path in sorted((SOURCE / "apps/python/notebooks").glob("*.ipynb")):
        ran = done(environment / "bin/python", "-c", RUN_NOTEBOOK, path, cwd=folder,
                   env={**os.environ, "MPLBACKEND": "Agg"})
        expect(ran.returncode == 0, f"runs {path.name} {ran.stderr.strip()[-200:]}")


def check_installed(wheel, python, digest, draws):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        environment = folder / "environment"
        subprocess.run([python, "-m", "venv", environment], check=True)
        before = files_below(environment)
        pip = (environment / "bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input")
        begin = time.monotonic()
        installed = done(*pip, "install", "--no-deps", "--no-index", wheel)
        seconds = time.monotonic() - begin
        expect(installed.returncode == 0,
               f"{python}: installs alone in {seconds:.2f} s {installed.stderr.strip()}")
        if installed.returncode != 0:
            return
        check_libraries(next(environment.glob("lib/python3*/site-packages")))
        check_run(environment, folder, digest)
        check_doctor(environment, folder)
        expect(f"twinserve-{version_of(environment)}-" in wheel.name, "--version is that of the wheel's name")
        done(*pip, "uninstall", "--yes", "twinserve")
        left = sorted(str(path) for path in files_below(environment) - before)
        expect(not left, f"uninstalled, leaves {', '.join(left) or 'nothing'}")
        if draws:
            check_figure(environment, wheel, folder)


def main():
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} FOLDER PROGRAM")
    wheels = sorted(pathlib.Path(sys.argv[1]).resolve().glob("*.whl"))
    program = pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([program, "run", SOURCE / "experiments/quickstart/vllm_v1.textproto", *CHANGES, "--out",
                        f"{scratch}/run"], check=True, capture_output=True)
        digest = json.loads(pathlib.Path(scratch, "run/summary.json").read_text())["digest"]
    expect(wheels, f"{len(wheels)} wheels")
    here = pythons()
    for wheel in wheels:
        check_file(wheel)
        fits = [minor for minor in here if (minor >= 12 if "-abi3-" in wheel.name else minor == 11)]
        if not fits:
            print(f"left out: {wheel.name} installed, as no Python here takes it")
        for minor in fits:
            check_installed(wheel, here[minor], digest, wheel == wheels[-1] and minor == fits[-1])
    if failures:
        sys.exit(f"check_wheels: {len(failures)} of the above failed")


if __name__ == "__main__":
    main()
