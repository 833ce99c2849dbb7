"""Packs a folder. Usage: pack_bundle.py FOLDER ARCHIVE

The archive is the same for the same files: names are in order, times and owners are left out. The
dictionary of preset 9 is large enough to find the kernels of one program again in the next.
"""
import os
import pathlib
import sys
import tarfile


def plain(member):
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


def main():
    folder, archive = map(pathlib.Path, sys.argv[1:])
    beside = archive.with_name(archive.name + ".new")
    with tarfile.open(beside, "w:xz", preset=9) as packed:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                packed.add(file, f"{folder.name}/{file.relative_to(folder)}", filter=plain)
    os.replace(beside, archive)


if __name__ == "__main__":
    main()
