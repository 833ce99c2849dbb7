"""The version of the Python package, for pyproject.toml: what `twinserve --version` says first.

The version of a source package is written in it. In a checkout it is the Git tag of the commit, vX.Y.Z,
and without one that of CMakeLists.txt. run/version.cmake follows the same rule for other programs.
"""
import pathlib
import re
import subprocess


def package_version(source):
    package = source / "PKG-INFO"
    if package.is_file():
        return re.search(r"^Version: (\S+)$", package.read_text(encoding="utf-8"), re.MULTILINE)[1]
    try:
        tags = subprocess.run(["git", "-C", str(source), "tag", "--points-at", "HEAD", "--sort=version:refname"],
                              capture_output=True, text=True, check=False).stdout.split()
    except FileNotFoundError:
        tags = []
    released = [tag for tag in tags if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    if released:
        return released[-1][1:]
    project = (source / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(twinserve VERSION ([\d.]+)", project)[1]


def dynamic_metadata(_settings, _project):
    """What scikit-build-core asks for."""
    return {"version": package_version(pathlib.Path.cwd())}
