#!/usr/bin/env python3
"""Checks that tools/debian_packages.txt names every Debian package that a build or a script uses.

Usage: tools/check_packages.py BUILD_DIR    BUILD_DIR was configured with Ninja and built
       tools/check_packages.py --self-test

Checked are the headers in the compilers' dependency files (ninja -t deps), the programs and
libraries in the build's commands (ninja -t commands), and the programs that the scripts of the
repository call. Each file must belong to a listed package, to a package that a listed one depends
on (Depends and Pre-Depends, recursively; not Recommends), or to an essential package. Files of the
source tree, the build folder, a CUDA toolkit, ~/.cache/twinserve, and a Python that is not
Debian's are not checked.
On a system without dpkg the check is skipped.
"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = "tools/debian_packages.txt"
DEBIAN_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# Programs that scripts use only where they are installed, or ask the user to install.
OPTIONAL = {
    "apt-get": "Debian's own", "apt-config": "the same", "buildah": "tests/wheel/image",
    "clang-format": "layout check of ./test", "clang-tidy": "./test",
    "compute-sanitizer": "CUDA toolkit", "latexmk": "paper/build", "kpsewhich": "paper/build",
    "mmdebstrap": "tests/fresh_machine", "nvcc": "CUDA toolkit", "nvidia-smi": "NVIDIA driver",
    "pdflatex": "paper/build", "sudo": "tools/setup of a user who is not root"}


class Packages:
    """The installed packages, read from dpkg's own files."""

    def __init__(self, admin):
        self.depends, self.essential = {}, set()
        self.providers = collections.defaultdict(set)
        for entry in (admin / "status").read_text(encoding="utf-8").split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+): *(.*)$", entry, re.MULTILINE))
            if not fields.get("Status", "").endswith(" installed"):
                continue
            name = fields["Package"]
            clauses = f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}".split(",")
            self.depends[name] = [[re.sub(r"[ (:].*", "", choice.strip())
                                   for choice in clause.split("|")]
                                  for clause in clauses if clause.strip()]
            for provided in re.findall(r"[^,\s(]+(?=\s*(?:,|$|\())", fields.get("Provides", "")):
                self.providers[provided].add(name)
            if fields.get("Essential") == "yes":
                self.essential.add(name)
        self.owner = {}
        for listing in (admin / "info").glob("*.list"):
            package = listing.stem.split(":")[0]
            for path in listing.read_text(encoding="utf-8", errors="replace").splitlines():
                self.owner.setdefault(path, package)

    def owner_of(self, path):
        """The package of a file, found by its resolved name, with and without merged /usr."""
        for name in (os.path.realpath(path), os.path.normpath(path)):
            for spelling in (name, name.removeprefix("/usr"), "/usr" + name):
                if spelling in self.owner:
                    return self.owner[spelling]
        return None

    def closure(self, names):
        """The packages, and all that they depend on."""
        waiting, found = [*names, *self.essential], set()
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            for choices in self.depends.get(name, []):
                # The first installed alternative satisfies the dependency, as it does for apt.
                for choice in choices:
                    real = [choice] if choice in self.depends else self.providers.get(choice)
                    if real:
                        waiting += real
                        break
        return found


def listed_packages(file):
    return [line.strip() for line in file.read_text(encoding="utf-8").splitlines()
            if line.strip() and not line.startswith("#")]


def ninja(build, tool):
    done = subprocess.run(["ninja", "-C", build, "-t", *tool], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"check_packages: ninja -t {tool[0]} fails in {build}: {done.stderr.strip()}")
    return done.stdout


def headers_of(build):
    """File -> an object file that was compiled with it."""
    used, target = {}, None
    for line in ninja(build, ["deps"]).splitlines():
        if line.startswith("    "):
            used.setdefault(os.path.normpath(build / line.strip()), target)
        elif ": #deps" in line:
            target = line.split(":")[0]
    return used


def debian_program(path):
    """The program itself, or Debian's of that name where another one comes first in PATH."""
    return shutil.which(os.path.basename(path), path=DEBIAN_PATH) or path


def library_file(compiler, name):
    """Where the linker finds -lNAME, or None."""
    for suffix in (".so", ".a"):
        found = subprocess.run([compiler, f"-print-file-name=lib{name}{suffix}"],
                               capture_output=True, text=True, check=False).stdout.strip()
        if os.path.isabs(found):
            return found
    return None


def commands_of(build):
    """File -> the command's output, for programs and libraries in the commands of the build."""
    used, libraries, compiler = {}, set(), shutil.which("c++") or "c++"
    for line in ninja(build, ["commands", "all"]).splitlines():
        output = re.search(r" -o (\S+)", line)
        target = output.group(1) if output else "a command of the build"
        for part in re.split(r"&&|\|\|", line):
            words = part.split()
            if words and os.path.isabs(words[0]):
                used.setdefault(debian_program(words[0]), target)
        for word in re.findall(r"(?<=\s)/\S+\.(?:so|a|o)\b[.\d]*(?=\s|$)", line):
            used.setdefault(word, target)
        libraries |= {(name, target) for name in re.findall(r"(?<=\s)-l([\w+.-]+)", line)}
    for name, target in sorted(libraries):
        file = library_file(compiler, name)
        if file:
            used.setdefault(file, target)
    return used


def words_of_script(text):
    """Words of a shell script where a command may begin, and of a Python script in calls."""
    if "python" in text.split("\n", 1)[0]:
        return set(re.findall(
            r'(?:run|Popen|call|check_output|which)\(\s*\[?\s*"([a-z][\w.+-]*)"', text))
    # Here-documents are text for readers or other programs, whose words are no commands.
    text = re.sub(r"<<-?\s*(['\"]?)(\w+)\1(.*\n)(?:.*\n)*?\s*\2[ \t]*$", r"\3", text,
                  flags=re.MULTILINE)
    text = re.sub(r"(?m)(^|\s)#.*$", "", text)
    begin = r"(?:^|[|;&({!]|\b(?:if|then|do|else|exec|env|sudo|xargs(?: -\S+)*|command -v)\b)"
    return set(re.findall(begin + r"\s*(?:!\s*)?(?=([a-z][\w.+-]*)(?:\s|$|\)|;))", text,
                          re.MULTILINE))


def programs_of(root):
    """Program file -> a script of the repository that calls it."""
    used = {}
    tracked = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True,
                             check=False)
    if tracked.returncode != 0:  # an unpacked archive
        return used
    for name in tracked.stdout.split("\0"):
        file = root / name
        if not file.is_file() or not os.access(file, os.X_OK):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        if not text.startswith("#!"):
            continue
        for word in words_of_script(text):
            program = shutil.which(word, path=DEBIAN_PATH)
            if program and re.sub(r"-\d+$", "", word) not in OPTIONAL:
                used.setdefault(program, name)
    return used


def unlisted(used, packages, listed, allowed):
    """A line for each package, and for each file without one, that the list does not account for."""
    enough = packages.closure(listed)
    first, count = {}, collections.Counter()
    for file in sorted(used):
        places = {os.path.normpath(file), os.path.realpath(file)}
        if any(place == folder or place.startswith(folder + "/")
               for place in places for folder in allowed):
            continue
        owner = packages.owner_of(file)
        if owner in enough or not os.path.exists(file):
            continue
        key = owner or file
        first.setdefault(key, (file, owner))
        count[key] += 1
    lines = []
    for key, (file, owner) in first.items():
        more = f" and {count[key] - 1} more files" if count[key] > 1 else ""
        if owner:
            lines.append(f"{file}{more} (used by {used[file]}) belongs to package {owner}, which "
                         f"{LIST} neither lists nor depends on; add it to {LIST}")
        else:
            lines.append(f"{file} (used by {used[file]}) belongs to no Debian package; take it "
                         f"from a package and add that to {LIST}")
    return lines


def foreign_python(config):
    """The prefix of the Python that build/venv was made from, unless it is Debian's."""
    found = config.is_file() and re.search(r"^home\s*=\s*(.+)/bin$", config.read_text(encoding="utf-8"),
                                           re.MULTILINE)
    return [found.group(1)] if found and found.group(1) not in ("", "/usr") else []


def allowed_folders(build):
    """Folders whose files are not Debian's; by their resolved names too."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folders = [ROOT, build, "/usr/local/cuda", os.path.join(cache, "twinserve")]
    folders += [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    folders += foreign_python(ROOT / "build/venv/pyvenv.cfg")
    return {form(str(folder)) for folder in folders for form in (os.path.normpath, os.path.realpath)}


def check(build):
    admin = pathlib.Path("/var/lib/dpkg")
    if not (admin / "status").is_file():
        print("check_packages: skipped, this system has no dpkg")
        return 0
    packages = Packages(admin)
    used = {**programs_of(ROOT), **commands_of(build), **headers_of(build)}
    lines = unlisted(used, packages, listed_packages(ROOT / LIST), allowed_folders(build))
    for line in lines:
        print(f"check_packages: {line}", file=sys.stderr)
    if not lines:
        print(f"check_packages: {len(used)} headers, libraries and programs checked")
    return 1 if lines else 0


def plant(folder):
    """A dpkg database, and a build that uses a listed, an implied, an unlisted and a foreign file."""
    outside = folder / "outside"
    (folder / "admin/info").mkdir(parents=True)
    outside.mkdir()
    owners = {"listed-dev": "listed.h", "implied-dev": "implied.h", "planted-dev": "planted.h"}
    status = []
    for package, header in owners.items():
        (outside / header).write_text("", encoding="utf-8")
        (folder / f"admin/info/{package}:amd64.list").write_text(f"/.\n{outside / header}\n",
                                                                 encoding="utf-8")
        depends = "Depends: missing-dev (>= 2) | virtual-dev, planted-doc\n"
        status.append(f"Package: {package}\nStatus: install ok installed\n"
                      + (depends if package == "listed-dev" else "") + ("Provides: other, virtual-dev (= 1)\n" if package == "implied-dev" else ""))
    (folder / "admin/status").write_text("\n".join(status), encoding="utf-8")
    (outside / "foreign.h").write_text("", encoding="utf-8")
    build = folder / "build"
    build.mkdir()
    (build / "a.cc").write_text("".join(f'#include "{outside / name}"\n'
                                        for name in (*owners.values(), "foreign.h")),
                                encoding="utf-8")
    (build / "build.ninja").write_text(
        "rule compile\n  command = c++ -nostdinc -ffreestanding -MD -MF $out.d -c $in -o $out\n"
        "  deps = gcc\n  depfile = $out.d\nbuild a.o: compile a.cc\n"
        "build all: phony a.o\n", encoding="utf-8")
    return build


def self_test():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(os.path.realpath(scratch))
        build = plant(folder)
        subprocess.run(["ninja", "-C", build], check=True, stdout=subprocess.DEVNULL)
        packages = Packages(folder / "admin")
        used = headers_of(build)
        lines = unlisted(used, packages, ["listed-dev"], {str(build)})
        foreign = [line for line in lines if "no Debian package" in line]
        planted = [line for line in lines if "planted-dev" in line]
        assert len(lines) == 2 and len(foreign) == 1 and len(planted) == 1, lines
        assert "foreign.h" in foreign[0], foreign
        assert planted[0].startswith(f"{folder}/outside/planted.h (used by a.o)"), planted
        assert planted[0].endswith(f"add it to {LIST}"), planted
        assert len(unlisted(used, packages, ["listed-dev", "planted-dev"], {str(build)})) == 1
    shell = 'git ls-files |\n  xargs -0 true\nif ! make x; then (($(nproc) > 1)) || objdump; fi # sed\n'
    assert {"git", "xargs", "make", "nproc", "objdump"} <= words_of_script(shell)
    assert "sed" not in words_of_script(shell)
    words = words_of_script('cat <<END | tee log\nResults\n  (open them)\nEND\nawk 1 <<<x\nls\n')
    assert {"cat", "tee", "awk", "ls"} <= words and "open" not in words
    assert words_of_script('#!/usr/bin/env python3\nrun(["git", "-C", x])\nwhich("nm")\n') == {
        "git", "nm"}
    print("check_packages: self-test passed")
    return 0


def main(arguments):
    if len(arguments) != 1 or (arguments[0].startswith("-") and arguments[0] != "--self-test"):
        sys.exit(__doc__)
    if arguments[0] == "--self-test":
        return self_test()
    build = pathlib.Path(arguments[0]).resolve()
    if not (build / "build.ninja").is_file():
        sys.exit(f"check_packages: {build} holds no build.ninja; configure and build it first")
    return check(build)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
