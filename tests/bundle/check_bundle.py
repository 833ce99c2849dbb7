#!/usr/bin/env python3
"""Checks that the folder of `cmake --preset bundle` runs elsewhere.

Usage: tests/bundle/check_bundle.py build/bundle/twinserve-bundle

Its size; that the archive beside it holds the same, and with the tracked files of the source tree is
small enough for a rented machine; that its programs need glibc's libraries alone, and of no newer glibc than 2.34, or what
lies in its lib/; and that in a root with nothing but it and a glibc without versions after 2.34 it
says, in one line, that there is no GPU. The last needs the right to change the root (root, or user
namespaces), and a machine without a CUDA device; otherwise it is left out with a note.
"""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools/cmake"))

import older_glibc  # noqa: E402  (needs the path)

SHT_VERDEF = 0x6FFFFFFD
MEGABYTES_MAX = 56
TRAVEL_MEBIBYTES_MAX = 60  # of a tree and what is carried beside it; the machine takes 64
GLIBC_MAX = (2, 34)
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
         "ld-linux-x86-64.so.2"}
CUDA_RUN = ("run", "/twinserve-bundle/checks/gpu_check/vllm_v1.textproto", "--out", "/twinserve-bundle/run")

# The loader finds lib/ beside bin/ by /proc, which an empty root does not have.
IN_ROOT = {**os.environ, "LD_LIBRARY_PATH": "/twinserve-bundle/lib"}

failures = []


def expect(fact, what):
    print(f"{'ok    ' if fact else 'FAILED'} {what}")
    if not fact:
        failures.append(what)


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_size(folder):
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    expect(size < MEGABYTES_MAX * 1e6, f"{size * 1e-6:.1f} MB, at most {MEGABYTES_MAX}")


def check_travel(archive):
    """The archive beside the tracked files."""
    names = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z"], capture_output=True, check=True)
    files = [SOURCE / os.fsdecode(name) for name in names.stdout.split(b"\0") if name]
    tree = sum(file.lstat().st_size for file in files if file.is_symlink() or file.is_file())
    size = (tree + archive.stat().st_size) / (1 << 20)
    expect(size < TRAVEL_MEBIBYTES_MAX, f"tracked files and archive: {tree / (1 << 20):.1f} + "
           f"{archive.stat().st_size / (1 << 20):.1f} MiB, at most {TRAVEL_MEBIBYTES_MAX}")


def check_archive(folder, archive):
    """Same files, same bytes, same right to be executed."""
    found = {}
    with tarfile.open(archive) as packed:
        for member in packed:
            if member.isfile():
                found[member.name] = (packed.extractfile(member).read(), member.mode & 0o100)
    wanted = {f"{folder.name}/{file.relative_to(folder)}": (file.read_bytes(),
                                                           file.stat().st_mode & 0o100)
              for file in folder.rglob("*") if file.is_file()}
    differ = [name for name in sorted(found.keys() | wanted.keys())
              if found.get(name) != wanted.get(name)]
    expect(not differ, f"{archive.name} holds what the folder holds ({', '.join(differ) or 'all'})")


def check_needs(folder, file):
    """A program or library: what it is linked with, and the newest glibc that it asks for."""
    own = {library.name for library in (folder / "lib").iterdir()}
    text = output_of("objdump", "-p", file)
    others = set(re.findall(r"NEEDED +(\S+)", text)) - GLIBC - own
    expect(not others, f"{file.name} needs no library of others ({', '.join(others) or 'none'})")
    needed = older_glibc.needs(file.read_bytes())
    newest = max(needed, default=(0, 0))
    expect(newest <= GLIBC_MAX, f"{file.name} asks for glibc {'.'.join(map(str, newest))} "
                                f"({', '.join(needed.get(newest, [])[:3])} ...)")


def hide_versions(file):
    """Makes a copy of a library of glibc one that defines no version after GLIBC_MAX, under which the
    loader finds nothing: as an older glibc, which has neither the versions nor the functions."""
    data = bytearray(file.read_bytes())
    elf = older_glibc.Elf(data)
    section = elf.section(SHT_VERDEF)
    at = section[4] if section else None
    hidden = 0
    while at is not None:
        auxiliary, following = struct.unpack_from("<II", data, at + 12)
        name, = struct.unpack_from("<I", data, at + auxiliary)
        if older_glibc.version_of(elf.text(section, name)) > GLIBC_MAX:
            struct.pack_into("<I", data, at + 8, 0)  # the hash that the loader looks for
            hidden += 1
        at = at + following if following else None
    # glibc's own libraries need each other's versions.
    older_glibc.replace_versions(data)
    file.write_bytes(data)
    return hidden


def fill_root(root, folder):
    """The bundle and glibc, as the loader looks for it."""
    shutil.copytree(folder, root / "twinserve-bundle")
    for name in ("lib64", "lib/x86_64-linux-gnu", "tmp", "proc", "dev"):
        (root / name).mkdir(parents=True)
    found = dict(re.findall(r"(\S+) \(libc6,x86-64[^)]*\) => (\S+)", output_of("/sbin/ldconfig", "-p")))
    for name in GLIBC:
        target = root / ("lib64" if name.startswith("ld-") else "lib/x86_64-linux-gnu")
        shutil.copy(found[name], target / name)
    hidden = sum(hide_versions(path) for folder in ("lib64", "lib/x86_64-linux-gnu")
                 for path in (root / folder).iterdir())
    print(f"note: the root's glibc is without {hidden} versions after 2.34")


def enter(root):
    """The command that runs what follows in the root, or None where that is not allowed."""
    # A root without /proc: what the program reads there, it must do without.
    for words in (["chroot", root], ["unshare", "--user", "--map-root-user", "chroot", root]):
        try:
            tried = subprocess.run([*words, "/twinserve-bundle/bin/twinserve", "--version"],
                                   capture_output=True, text=True, check=False, env=IN_ROOT)
        except OSError:
            continue
        if "not permitted" in tried.stderr:
            continue
        expect(tried.returncode == 0, f"twinserve starts in an empty root {tried.stderr}".rstrip())
        return words
    return None


def check_one_line(words, command):
    done = subprocess.run([*words, "/twinserve-bundle/bin/twinserve", *command],
                          capture_output=True, text=True, check=False, env=IN_ROOT)
    said = done.stderr.strip()
    expect(done.returncode == 1 and "no GPU" in said and "\n" not in said,
           f"in an empty root, {command[0]} ends with {done.returncode}: {said}")


def check_in_empty_root(folder):
    if pathlib.Path("/dev/nvidia0").exists():
        print("left out: the empty root, as there is a GPU")
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        fill_root(root, folder)
        words = enter(root)
        if words is None:
            print("left out: the empty root, which this user may not enter")
            return
        check_one_line(words, ("doctor", "--device", "cuda"))
        check_one_line(words, CUDA_RUN)
        listed = subprocess.run([*words, "/twinserve-bundle/bin/twinserve", "doctor"],
                                capture_output=True, text=True, check=False, env=IN_ROOT)
        expect(listed.returncode == 0 and "cuda      none" in listed.stdout,
               "in an empty root, doctor lists what is there")
        for program in sorted((folder / "bin").iterdir()):
            if program.name == "twinserve":
                continue
            done = subprocess.run([*words, f"/twinserve-bundle/bin/{program.name}"],
                                  capture_output=True, text=True, check=False, env=IN_ROOT)
            # 77: skipped, as test programs say; a loader's failure would be 127.
            expect(done.returncode in (1, 77), f"in an empty root, {program.name} ends with "
                                               f"{done.returncode}")


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    folder = pathlib.Path(sys.argv[1]).resolve()
    check_size(folder)
    archive = folder.with_name(f"{folder.name}.txz")
    check_travel(archive)
    check_archive(folder, archive)
    for file in sorted([*(folder / "bin").iterdir(), *(folder / "lib").iterdir()]):
        check_needs(folder, file)
    expect((folder / "models" / "tiny-llama" / "expected.json").exists(), "has reference models")
    check_in_empty_root(folder)
    if failures:
        sys.exit(f"check_bundle: {len(failures)} of the above failed")


if __name__ == "__main__":
    main()
