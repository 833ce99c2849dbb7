"""Installs the scheduler of an original from PyPI, by name, into an environment of its own.

Keeps the Python files of the wheel (and the extension modules that a system names), and installs only
the dependencies that decisions need. Empty modules (absent.py) replace every other module that the
scheduler imports; the list is found by importing the scheduler until it succeeds.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from . import cuda_stubs

HERE = pathlib.Path(__file__).resolve().parent
# Pinned: what every scheduler needs for its own settings and queues.
COMMON = ["pydantic==2.14.3", "pydantic-core==2.50.4", "typing-extensions==4.16.0",
          "annotated-types==0.8.0", "typing-inspection==0.4.5", "numpy==2.4.6", "msgspec==0.22.0",
          "regex==2026.11.15", "cloudpickle==3.1.2", "cachetools==8.0.1", "packaging==26.3"]

TORCH_NEEDS = ["filelock==4.2.11", "fsspec==2026.9.0", "jinja2==3.1.6", "networkx==3.6.1",
               "sympy==1.14.0"]


class InstallError(Exception):
    """One line for the user."""


def pip_error(name, text):
    """What a failed pip means."""
    found = re.search(r"from versions: ([^)]*)\)", text)
    if found and found[1].strip() != "none":
        newest = ", ".join(reversed(found[1].split(", ")[-5:]))
        return f"PyPI has no {name} for this Python; the newest are {newest}"
    if re.search(r"connection|resolution|timed out|retrying", text, re.IGNORECASE):
        return f"{name}: PyPI cannot be reached; connect to the network and run this again"
    last = [line for line in text.strip().splitlines() if line.strip()]
    return f"{name}: pip failed: {last[-1] if last else 'no output'}"


def pip(python, name, *arguments):
    done = subprocess.run([str(python), "-m", "pip", "--disable-pip-version-check", "--retries",
                           "2", "--timeout", "30", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise InstallError(pip_error(name, done.stdout + done.stderr))


def replaceable(text, system, absent):
    """What the traceback `text` of a failed import shows to be in the way and not needed: a module
    that is not installed, else the part of the original, outside those that decide, in which the
    import failed. None if there is none that is not in `absent` yet."""
    lines = text.strip().splitlines()
    missing = re.search(r"No module named '([\w.]+)'", lines[-1] if lines else "")
    if missing:
        first, _, rest = missing[1].partition(".")
        name = missing[1] if first == system.package and rest else first
    else:
        parts = re.findall(rf'^  File ".*?/packages/{system.package}/(\w+)/', text, re.MULTILINE)
        if not parts or parts[-1] in system.decides:
            return None
        name = f"{system.package}.{parts[-1]}"
    return None if name in [*absent, system.package] else name


def available(package):
    """What pip tells of a package's releases."""
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "index",
                           "versions", package], capture_output=True, text=True)
    if done.returncode:
        raise InstallError(pip_error(package, done.stdout + done.stderr))
    return done.stdout


class Environment:
    """Under `folder`: env/ (a virtual environment), packages/ (the original), installed.json."""

    def __init__(self, folder, system, version, say=lambda text: None):
        self.folder, self.system, self.version, self.say = folder, system, version, say
        self.python = folder / "env/bin/python"
        self.packages = folder / "packages"
        self.note = folder / "installed.json"

    @property
    def site_packages(self):
        """The folder of the dependencies."""
        return next(iter(self.folder.glob("env/lib/python*/site-packages")), self.folder / "env")

    def installed(self):
        """What the installation noted when it was complete; None if there is none."""
        return json.loads(self.note.read_text()) if self.note.is_file() else None

    def install(self):
        """Goes on where an interrupted installation stopped; returns the names left out."""
        done = self.installed()
        if done:
            return done["absent"]
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.python.is_file():
            self.say("making a virtual environment")
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.folder / "env")],
                           check=True)
        own = f"{self.system.package}=={self.version}"
        self.unpack(own, self.system.extensions)
        pins = [self.pin(pattern) for pattern in self.system.pinned]
        self.say("installing " + ", ".join(entry.split("=")[0] for entry in COMMON + pins))
        pip(self.python, "the scheduler's dependencies", "install", "-q", *COMMON, *pins,
            *self.system.needs)
        if self.system.torch:
            self.install_torch()
        absent = self.find_absent()
        version = ".".join(map(str, sys.version_info[:2]))
        self.note.write_text(json.dumps({"absent": absent, "python": version}) + "\n")
        return absent

    def pin(self, name):
        """The requirement NAME==VERSION of the original's own metadata."""
        for file in self.packages.glob(f"{self.system.package}-*.dist-info/METADATA"):
            found = re.search(rf"^Requires-Dist: {name}==([\w.]+)", file.read_text(), re.MULTILINE)
            if found:
                return f"{name}=={found[1]}"
        return name

    def unpack(self, requirement, extensions):
        """Downloads one wheel, without what it depends on, and keeps the files that are needed."""
        mark = self.folder / (requirement + ".unpacked")
        if mark.is_file():
            return
        self.say(f"downloading {requirement}")
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            pip(self.python, requirement, "download", "-q", "--no-deps", "--only-binary", ":all:",
                "-d", folder, requirement)
            for wheel in pathlib.Path(folder).glob("*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    names = [name for name in archive.namelist()
                             if re.search(r"\.(py|json)$|dist-info/", name)
                             or (extensions and re.search(extensions, name))]
                    archive.extractall(self.packages, names)
        mark.touch()

    def variables(self):
        """The environment variables of a process that runs the original."""
        values = dict(os.environ, PYTHONPATH=str(self.packages), PYTHONDONTWRITEBYTECODE="1",
                      TORCHDYNAMO_DISABLE="1", TORCH_COMPILE_DISABLE="1", CUDA_VISIBLE_DEVICES="",
                      PYTHONWARNINGS="ignore", HF_HUB_OFFLINE="1")
        if (self.folder / "stubs").is_dir():
            values["LD_LIBRARY_PATH"] = str(self.folder / "stubs")
        return values

    def process(self, script, *arguments):
        """The script, run by the environment's Python; its errors go to worker.log."""
        return subprocess.Popen(
            [str(self.python), str(script), *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=(self.folder / "worker.log").open("w"), text=True,
            env=self.variables())

    def find_absent(self):
        """The packages that the scheduler imports and that are replaced by empty modules. Where
        these do not suffice, PyTorch is installed."""
        absent = list(self.system.absent)
        while True:
            self.say(f"importing the scheduler; {len(absent)} packages replaced")
            process = self.process(HERE / "import_release.py", str(self.packages),
                                   ",".join(absent), *self.system.modules)
            process.communicate("")
            if process.returncode == 0:
                return absent
            text = (self.folder / "worker.log").read_text()
            last = (text.strip().splitlines() or ["no message"])[-1]
            replaced = replaceable(text, self.system, absent)
            if replaced:
                absent.append(replaced)
            elif "torch" in absent:
                self.say(f"modules without content do not suffice ({last[:120]})")
                self.install_torch()
                absent = [name for name in absent if name != "torch" and "." not in name]
            else:
                raise InstallError(f"{self.system.name} {self.version} cannot be imported: {last} "
                                   f"(all of it: {self.folder / 'worker.log'})")

    def install_torch(self):
        """PyTorch in the version that the original asks for, without the libraries of CUDA."""
        self.unpack(self.pin("torch"), r".*")
        pip(self.python, "PyTorch's dependencies", "install", "-q", *TORCH_NEEDS)
        cuda_stubs.build(self.packages / "torch/lib", self.folder / "stubs")

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
