"""Empty libraries in place of CUDA's, which PyTorch's wheel wants at import and nothing here calls.

They save several GB. Each exports the symbols that the wheel's libraries leave undefined, at the
versions that they ask for; every function does nothing.
"""
import collections
import pathlib
import re
import subprocess

SYSTEM = re.compile(r"GLIBC|CXXABI|GCC|GOMP|OMP")
CUDA = re.compile(r"(__)?(cu|nccl|nv)")


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def symbols(libraries):
    """Version (or None) of each CUDA symbol that the libraries use and do not define."""
    defined, used = set(), {}
    for library in libraries:
        for line in lines("nm", "-D", str(library)):
            found = re.match(r"\S*\s+(\w) (\w+)(?:@+(\S+))?$", line)
            if found and found[1] in "Uwv":
                used[found[2]] = found[3]
            elif found:
                defined.add(found[2])
    return {name: version for name, version in used.items() if name not in defined
            and CUDA.match(name) and not SYSTEM.match(version or "")}


def build(torch_libraries, folder):
    """Writes to `folder` a library for each that those of PyTorch need and that is not here."""
    libraries = sorted(pathlib.Path(torch_libraries).glob("*.so*"))
    own, needed = {library.name for library in libraries}, set()
    for library in libraries:
        for line in lines("readelf", "-d", str(library)):
            needed |= set(re.findall(r"NEEDED.*\[(.*?)\]", line))
    absent = [name for name in needed - own if re.match(r"lib(cu|nccl|nv)", name)]
    if not absent:
        return
    used, versions = symbols(libraries), collections.defaultdict(list)
    for name, version in used.items():
        versions[version].append(name)
    text = {name: '"none"' if re.search("String|Name", name) else "1" for name in used}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stubs.c").write_text("".join(
        f"void *{name}(void) {{ return (void *){value}; }}\n" for name, value in text.items()))
    (folder / "stubs.map").write_text("".join(
        f"{version} {{ global: {'; '.join(names)}; }};\n"
        for version, names in versions.items() if version))
    for name in absent:
        subprocess.run(["cc", "-w", "-fno-builtin", "-shared", "-fPIC", str(folder / "stubs.c"),
                        f"-Wl,-soname,{name},--version-script={folder / 'stubs.map'}",
                        "-o", str(folder / name)], check=True)
