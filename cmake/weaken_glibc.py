#!/usr/bin/env python3
"""Lets libraries of a bundle start on older versions of glibc than they were linked with.

Usage: weaken_glibc.py FILE...

Marks versions of glibc after 2.34 as weak requirements in the files, in place: the loader does not
refuse a file because of them. The few functions that come with them are defined by the programs
(older_glibc.cc). Fails if a file takes any other function from a later version.
"""
import struct
import sys

LATEST = (2, 34)
PROVIDED = {"arc4random", "_dl_find_object", "hypot"}
WEAK = 2
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
        """Of each needed version: where its entry is, its number in the symbols' table, its name."""
        need = self.section(SHT_VERNEED)
        at = need[4] if need else None
        while at is not None:
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, at)
            entry = at + first
            for _ in range(count):
                _, flags, number, name, step = struct.unpack_from("<IHHII", self.data, entry)
                yield entry, flags, number & 0x7FFF, self.text(need, name)
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
    """Of each version of glibc that must be there: its symbols. Weak requirements need not be."""
    elf = Elf(data)
    return {version_of(name): sorted(elf.symbols_of(number))
            for _, flags, number, name in elf.needed_versions()
            if version_of(name) > (0,) and not flags & WEAK}


def weaken(file):
    with open(file, "rb") as stream:
        data = bytearray(stream.read())
    elf = Elf(data)
    for entry, flags, number, name in elf.needed_versions():
        if version_of(name) <= LATEST:
            continue
        others = sorted(set(elf.symbols_of(number)) - PROVIDED)
        if others:
            sys.exit(f"{file}: takes {', '.join(others)} from {name}, which older systems lack")
        struct.pack_into("<H", data, entry + 4, flags | WEAK)
    with open(file, "wb") as stream:
        stream.write(data)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        weaken(each)
