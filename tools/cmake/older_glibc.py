#!/usr/bin/env python3
"""Lets libraries of a bundle start on older versions of glibc than they were linked with.

Usage: older_glibc.py FILE...

Replaces required versions of glibc after 2.34 by the first version of the same library, in place:
the loader then refuses no file. The few functions that come with later versions are defined by the
programs (older_glibc.cc), which the loader searches first. Fails if a file takes any other function
from a later version.
"""
import struct
import sys

LATEST = (2, 34)
PROVIDED = {"arc4random", "_dl_find_object", "hypot"}
SHT_DYNSYM, SHT_VERSYM, SHT_VERNEED = 11, 0x6FFFFFFF, 0x6FFFFFFE


class Elf:
    """Sections of a 64-bit little-endian file, and the versions that its symbols need."""

    def __init__(self, data):
        self.data = data
        table, = struct.unpack_from("<Q", data, 0x28)
        size, count = struct.unpack_from("<HH", data, 0x3A)
        self.sections = [struct.unpack_from("<IIQQQQII", data, table + i * size)
                         for i in range(count)]

    def section(self, kind):
        return next((found for found in self.sections if found[1] == kind), None)

    def text(self, section, offset):
        begin = self.sections[section[6]][4] + offset
        return self.data[begin:self.data.index(b"\0", begin)].decode()

    def needed_versions(self):
        """Of each needed version: where its entry is, where the first entry of the same library is, its
        number in the symbols' table, its name."""
        need = self.section(SHT_VERNEED)
        at = need[4] if need else None
        while at is not None:
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, at)
            entry = at + first
            for _ in range(count):
                _, _, number, name, step = struct.unpack_from("<IHHII", self.data, entry)
                yield entry, at + first, number & 0x7FFF, self.text(need, name)
                entry += step
            at = at + following if following else None

    def symbols_of(self, number):
        versions, symbols = self.section(SHT_VERSYM), self.section(SHT_DYNSYM)
        for i in range(versions[5] // 2):
            found, = struct.unpack_from("<H", self.data, versions[4] + 2 * i)
            if found & 0x7FFF == number:
                name, = struct.unpack_from("<I", self.data, symbols[4] + 24 * i)
                yield self.text(symbols, name)


def version_of(name):
    """(2, 36) of GLIBC_2.36; (0,) of what is no version of glibc."""
    kind, _, number = name.partition("_")
    digits = number.split(".")
    return tuple(map(int, digits)) if kind == "GLIBC" and all(map(str.isdigit, digits)) else (0,)


def needs(data):
    """Of each version of glibc that must be there: its symbols."""
    elf = Elf(data)
    return {version_of(name): sorted(elf.symbols_of(number))
            for _, _, number, name in elf.needed_versions() if version_of(name) > (0,)}


def replace_versions(data, check=lambda symbols, version: None):
    """Lets every version after LATEST be an earlier one of the same library. `check` is called with
    the symbols and the name of each version that is replaced."""
    elf = Elf(data)
    entries = list(elf.needed_versions())
    for entry, first, number, name in entries:
        if version_of(name) <= LATEST:
            continue
        check(elf.symbols_of(number), name)
        earlier = min((version_of(other), place) for place, begin, _, other in entries
                      if begin == first and (0,) < version_of(other) <= LATEST)[1]
        data[entry:entry + 4] = data[earlier:earlier + 4]  # the hash of the name
        data[entry + 8:entry + 12] = data[earlier + 8:earlier + 12]  # where the name is


def make_older(file):
    def check(symbols, version):
        others = sorted(set(symbols) - PROVIDED)
        if others:
            sys.exit(f"{file}: takes {', '.join(others)} from {version}, which older systems lack")

    with open(file, "rb") as stream:
        data = bytearray(stream.read())
    replace_versions(data, check)
    with open(file, "wb") as stream:
        stream.write(data)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        make_older(each)
