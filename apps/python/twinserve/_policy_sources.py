"""The files of which a policy in Python is made, found without running any of them."""
from __future__ import annotations

import importlib.machinery
import os
import re
import sys
from collections.abc import Iterator, Sequence

from twinserve._native import InputError

# "from MODULE import MEMBERS" and "import MODULES".
_IMPORT = re.compile(r"\bfrom\s+([.\w]+)\s+import\s+(\([^()]*\)|[^\n]*)|\bimport\s+([^\n]*)")
_NAME = re.compile(r"[\w.]+")
_INSTALLED = {"site-packages", "dist-packages"}


def sources_of(policy_file: bytes, class_name: str, engine: str) -> list[bytes]:
    """The file with the policy's class, then the modules of its folder or package that it imports,
    directly or through each other. Empty if there is no such file.

    Only the file itself if its module is installed: an installed package has a version.
    """
    path = os.fsdecode(policy_file)
    places = [*_places_of(engine), *sys.path, os.getcwd()]
    name = "" if path else class_name.partition(":")[0]
    first = path or _file_of(name, places)
    if not first or not os.path.isfile(first):
        return []
    folder = os.path.dirname(os.path.abspath(first))  # where names of modules start
    inside = os.path.basename(first) == "__init__.py"
    for _ in range(name.count(".") + inside if name else 0):
        folder = os.path.dirname(folder)
    found = {first: name}
    if not _is_installed(folder):
        package = name.partition(".")[0] if inside or "." in name else ""
        todo = [*_with_parents(name), *_imports(first, name)]
        while todo:
            imported = todo.pop()
            file = _file_of(imported, [folder])
            belongs = not package or imported.partition(".")[0] == package
            if file and file not in found and belongs:
                found[file] = imported
                todo += _imports(file, imported)
    return [os.fsencode(file) for file in (first, *sorted(set(found) - {first}))]


def _places_of(engine: str) -> list[str]:
    if not engine:
        return []
    from twinserve.engines import loading
    try:
        place = loading.place_of(engine)
    except InputError:
        return []  # the loader says so
    return [str(place.packages), str(place.site_packages)]


def _file_of(name: str, places: Sequence[str]) -> str:
    """Where the module would be loaded from; empty: nowhere."""
    spec = None
    where: Sequence[str] | None = places
    for end, letter in enumerate(name + "."):
        if letter != ".":
            continue
        if where is None:
            return ""
        spec = importlib.machinery.PathFinder.find_spec(name[:end], where)
        if spec is None:
            return ""
        where = spec.submodule_search_locations
    return spec.origin if spec and spec.origin and os.path.isfile(spec.origin) else ""


def _is_installed(folder: str) -> bool:
    return folder == os.path.dirname(os.__file__) or bool(_INSTALLED & set(folder.split(os.sep)))


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1) if parts[0]]


def _imports(file: str, name: str) -> Iterator[str]:
    """The modules that a module may import, with the packages that hold them.

    Reads the words behind `import` alone: a parser would have to survive any file.
    """
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read()
    except OSError:
        return  # the loader says so
    package = name.split(".")
    if os.path.basename(file) != "__init__.py":
        package.pop()
    for found in _IMPORT.finditer(text):
        module, members, modules = found.groups(default="")
        level = len(module) - len(module.lstrip("."))
        base = package[:len(package) - level + 1] if level else []
        module = ".".join([*base, *filter(None, [module.lstrip(".")])])
        asked = _NAME.findall(modules)
        if members:
            asked = [module, *(f"{module}.{member}" for member in _NAME.findall(members))]
        for one in asked:
            yield from _with_parents(one)
