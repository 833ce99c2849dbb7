"""Installs the scheduler of an original from PyPI, by name, into an environment of its own.

Of the wheel only the Python files are kept (and the extension modules that a system names); of its
dependencies only those that decisions need. What else is imported is replaced by modules without
content (absent.py), found by importing the scheduler until it succeeds.
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

import cuda_stubs

HERE = pathlib.Path(__file__).resolve().parent
# Pinned: what every scheduler needs for its own settings and queues.
COMMON = ["pydantic==2.14.3", "pydantic-core==2.50.4", "typing-extensions==4.16.0",
          "annotated-types==0.8.0", "typing-inspection==0.4.5", "numpy==2.4.6", "msgspec==0.22.0",
          "regex==2026.11.15", "cloudpickle==3.1.2", "cachetools==8.0.1", "packaging==26.3"]


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


class Environment:
    """Under `folder`: env/ (a virtual environment), packages/ (the original), installed.json."""

    def __init__(self, folder, system, version, say=lambda text: None):
        self.folder, self.system, self.version, self.say = folder, system, version, say
        self.python = folder / "env/bin/python"
        self.packages = folder / "packages"
        self.note = folder / "installed.json"

    def installed(self):
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
        for name in self.system.unpacked:
            self.unpack(self.pin(name), r".*")
        self.say("installing " + ", ".join(entry.split("=")[0] for entry in COMMON + pins))
        pip(self.python, "the scheduler's dependencies", "install", "-q", *COMMON, *pins,
            *self.system.needs)
        torch = self.packages / "torch/lib"
        if torch.is_dir():
            cuda_stubs.build(torch, self.folder / "stubs")
        absent = self.find_absent()
        self.note.write_text(json.dumps({"absent": absent}) + "\n")
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

    def worker(self, absent):
        """The process that decides cases (decide.py)."""
        return subprocess.Popen(
            [str(self.python), str(HERE / "decide.py"), self.system.module, str(self.packages),
             ",".join(absent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=(self.folder / "worker.log").open("w"), text=True, env=self.variables())

    def find_absent(self):
        """The packages that the scheduler imports and that are replaced by empty modules."""
        absent = list(self.system.absent)
        while True:
            self.say(f"importing the scheduler; {len(absent)} packages replaced")
            process = self.worker(absent)
            process.communicate("")
            if process.returncode == 0:
                return absent
            text = (self.folder / "worker.log").read_text().strip().splitlines()
            missing = re.search(r"No module named '([^'.]+)", text[-1] if text else "")
            if not missing or missing[1] in [*absent, self.system.package]:
                raise InstallError(f"{self.system.name} {self.version} cannot be imported: "
                                   f"{text[-1] if text else 'no message'} "
                                   f"(all of it: {self.folder / 'worker.log'})")
            absent.append(missing[1])

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
