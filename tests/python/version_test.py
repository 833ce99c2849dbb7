"""The version of a build and of the package: the Git tag of the commit, else that of CMakeLists.txt."""
import importlib.util
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not (shutil.which("git") and shutil.which("cmake")), reason="needs git and cmake")


def package_version(folder):
    spec = importlib.util.spec_from_file_location("package_version", SOURCE / "tools/package_version.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.package_version(folder)


def built_version(folder, *more):
    header = folder / "version.h"
    subprocess.run(["cmake", f"-DSOURCE={folder}", f"-DHEADER={header}", "-DVERSION=0.1.0", *more,
                    "-P", SOURCE / "run/version.cmake"], check=True)
    return re.search(r'kVersion\[\] = "(.*)"', header.read_text())[1]


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@y", *words], check=True,
                   capture_output=True)


@pytest.fixture(name="checkout")
def make_checkout(tmp_path):
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("project(twinserve VERSION 0.1.0 LANGUAGES CXX)\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def versions(folder):
    return [package_version(folder), built_version(folder)]


def test_without_a_tag_it_is_that_of_the_project(checkout):
    git(checkout, "tag", "nightly")
    git(checkout, "tag", "v2.0.0-rc1")
    assert versions(checkout) == ["0.1.0", "0.1.0"]


def test_the_latest_tag_of_the_commit_is_the_version(checkout):
    git(checkout, "tag", "v0.9.0")
    git(checkout, "tag", "v0.10.0")
    assert versions(checkout) == ["0.10.0", "0.10.0"]


def test_a_tag_of_an_earlier_commit_is_not(checkout):
    git(checkout, "tag", "v0.9.0")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "second")
    assert versions(checkout) == ["0.1.0", "0.1.0"]


def test_without_git_it_is_that_of_the_project(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("project(twinserve VERSION 0.1.0 LANGUAGES CXX)\n")
    assert versions(tmp_path) == ["0.1.0", "0.1.0"]


def test_a_package_keeps_the_version_of_its_name(checkout):
    git(checkout, "tag", "v0.9.0")
    assert built_version(checkout, "-DPACKAGE=ON") == "0.1.0"
    (checkout / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: twinserve\nVersion: 0.8.0\n")
    assert package_version(checkout) == "0.8.0"
