#!/usr/bin/env python3
"""Fails if a compiled kernel accesses memory before it waits for the kernels before it.

sass_order.py check FOLDER   checks the machine code of all CUDA objects (*.cu.o) below the folder
sass_order.py show FOLDER    a table of the accesses of kernels before they wait
sass_order.py --self-test

Kernels that are launched with overlap start while the kernel before them still runs. Data that they
read before their wait (the instruction ACQBULK; griddepcontrol.wait in PTX) may be old, and data that
they write may be read too late. ALLOWED lists the exceptions. Every instruction that can be
reached without passing a wait is looked at; accesses to shared and local memory and to constants
are not restricted. Code below compute capability 9.0 has no wait and is left out.

Exits with 77 (skipped) if cuobjdump or nvdisasm is in none of the CUDA toolkit, PATH and build/venv
(tools/setup disassembler), or if nothing was compiled for 9.0 or newer.
"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

from ptx_report import demangled

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parent.parent

# What kernels may do before they wait, and how often in their code. Nothing unless listed.
ALLOWED = {
    "NormKernel": {"CCTL": 2},  # prefetches gain and bias
    "SkinnyGemmKernel": {"LDG": 4},  # weights, which no kernel writes while a model serves
    "WideningGemmKernel": {"LDG": 4},  # likewise
    # FlashInfer's: plans, lengths and page borders, which copies write. Padding blocks leave at
    # once; each plan has a real block, which waits.
    "BatchPrefillWithPagedKVCacheKernel": {"LDG": 11, "EXIT": 1},
    "BatchDecodeWithPagedKVCacheKernel": {"LDG": 9, "EXIT": 1},
    "PersistentVariableLengthMergeStatesKernel": {"LDG": 1},
}
NOT_OVERLAPPED = {"PrefillWithKVCacheKernel"}  # launched without overlap (fa3.cuh): need not wait

ARCH = re.compile(r"^\s*code for sm_(\d+)")
FUNCTION = re.compile(r"^\s*Function : (\S+)")
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);")
TARGET = re.compile(r"0x([0-9a-f]+)\s*$")
BARRIER = re.compile(r"\bB\d+\b")
# Accesses to global memory, by the part of the opcode in front of the first dot.
MEMORY = re.compile(r"LD|LDG|LDGSTS|ST|STG|ATOM|ATOMG|RED|REDG|CCTL|SULD|SUST|SURED|TEX|TLD4?|"
                    r"UBLK\w+|UTMA(?!CCTL)\w+")
INDIRECT = ("BRX", "JMX", "JMP", "CALL.ABS")

Instruction = collections.namedtuple("Instruction", "predicated opcode operands next")


def disassembler():
    """(cuobjdump, environment in which it finds nvdisasm), or None."""
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    folders = [f"{toolkit}/bin", *os.environ.get("PATH", "").split(os.pathsep),
               *map(str, ROOT.glob("build/venv/lib/python*/site-packages/nvidia/*/bin"))]
    path = os.pathsep.join(folders)
    cuobjdump = shutil.which("cuobjdump", path=path)
    if cuobjdump is None or shutil.which("nvdisasm", path=path) is None:
        return None
    return cuobjdump, {**os.environ, "PATH": path}


def functions(listing):
    """(name, architecture, address -> instruction) of each function of cuobjdump's listing."""
    arch, function, lines = 0, None, []
    for line in listing:
        if found := INSTRUCTION.match(line):
            lines.append((int(found[1], 16), bool(found[2]), found[3], found[4]))
        elif found := ARCH.match(line):
            arch = int(found[1])
        elif found := FUNCTION.match(line):
            if function:
                yield *function, code(lines)
            function, lines = (found[1], arch), []
    if function:
        yield *function, code(lines)


def code(lines):
    following = [line[0] for line in lines[1:]] + [None]
    return {address: Instruction(predicated, opcode, operands, after)
            for (address, predicated, opcode, operands), after in zip(lines, following)}


def successors(instruction, ends):
    """Addresses at which the thread may go on. `ends`: barrier -> where its threads meet."""
    _, opcode, operands, after = instruction
    plain = opcode.split(".")[0]
    target = TARGET.search(operands)
    if plain == "BSSY" and target:
        ends[BARRIER.search(operands)[0]].add(int(target[1], 16))
    places = []
    if plain in ("BRA", "CALL") and target:
        places.append(int(target[1], 16))
    if plain == "BSYNC":
        places += ends[BARRIER.search(operands)[0]]
    always = plain in ("BRA", "EXIT", "RET") and not instruction.predicated
    # A conditional branch may name its predicate behind its opcode.
    if not always or (plain == "BRA" and re.match(r"\s*!?U?P\d", operands)):
        places.append(after)
    return [place for place in places if place is not None]


def before_wait(instructions):
    """(what is done before a wait: opcode -> how often, whether there is a wait at all)."""
    done, ends = collections.Counter(), collections.defaultdict(set)
    open_places, seen, waits = [min(instructions)], set(), False
    while open_places:
        address = open_places.pop()
        if address in seen or address not in instructions:
            continue
        seen.add(address)
        instruction = instructions[address]
        plain = instruction.opcode.split(".")[0]
        if plain == "ACQBULK" and not instruction.predicated:
            waits = True
            continue
        if plain == "EXIT" or MEMORY.fullmatch(plain):
            done[plain] += 1
        if instruction.opcode.startswith(INDIRECT):
            done["an indirect branch"] += 1
        open_places += successors(instruction, ends)
    return done, waits


def kernels(folder, cuobjdump, environment):
    """(name, architecture, what it does before its wait, whether it waits) of each kernel."""
    rows = []
    for path in sorted(pathlib.Path(folder).rglob("*.cu.o")):
        listing = subprocess.run([cuobjdump, "-sass", str(path)], env=environment, text=True,
                                 capture_output=True, check=True).stdout
        rows += [(name, arch, *before_wait(instructions))
                 for name, arch, instructions in functions(listing.splitlines()) if arch >= 90]
    return [(name, *row[1:]) for name, row in zip(demangled([row[0] for row in rows]), rows)]


def complaints(rows):
    for name, arch, done, waits in rows:
        kernel = name.split("<")[0]
        if kernel in NOT_OVERLAPPED:
            continue
        if not waits:
            yield f"{name} (sm_{arch}): never waits for the kernels in front of it"
            continue
        for opcode, count in sorted(done.items()):
            allowed = ALLOWED.get(kernel, {}).get(opcode, 0)
            if count > allowed:
                yield f"{name} (sm_{arch}): {count} {opcode} before its wait, allowed are {allowed}"


def self_test():
    """Two objects' listings in one: the wait of Good() is behind either side of a branch."""
    listing = """code for sm_90a
        Function : Early
        /*0000*/ LDG.E R5, desc[UR4][R2.64] ;
        /*0010*/ ACQBULK ;
        /*0020*/ EXIT ;
        Function : Good
        /*0000*/ @!P0 BRA 0x40 ;
        /*0010*/ STS [R2], R3 ;
        /*0020*/ ACQBULK ;
        /*0030*/ EXIT ;
        /*0040*/ ACQBULK ;
        /*0050*/ BRA 0x30;
        Function : OneSide
        /*0000*/ @!P0 BRA 0x20 ;
        /*0010*/ ACQBULK ;
        /*0020*/ STG.E desc[UR4][R2.64], R5 ;
        /*0030*/ @P1 EXIT ;
        /*0040*/ BRA 0x30;
        Function : Never
        /*0000*/ EXIT ;
        code for sm_80
        Function : Never
        /*0000*/ EXIT ;"""
    found = [(name, arch, *before_wait(instructions))
             for name, arch, instructions in functions(listing.splitlines())]
    assert found == [("Early", 90, {"LDG": 1}, True), ("Good", 90, {}, True),
                     ("OneSide", 90, {"STG": 1, "EXIT": 1}, True),
                     ("Never", 90, {"EXIT": 1}, False), ("Never", 80, {"EXIT": 1}, False)], found
    assert len(list(complaints(found))) == 5
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 2 or arguments[0] not in ("check", "show"):
        sys.exit(__doc__)
    found = disassembler()
    if found is None:
        print("skipped: cuobjdump or nvdisasm is missing; tools/setup disassembler installs them")
        return SKIPPED
    rows = kernels(arguments[1], *found)
    if not rows:
        print("skipped: nothing was compiled for compute capability 9.0 or newer")
        return SKIPPED
    if arguments[0] == "show":
        for name, arch, done, waits in rows:
            what = ", ".join(f"{count} {opcode}" for opcode, count in sorted(done.items()))
            print(f"sm_{arch:<4} {what or 'nothing' if waits else 'no wait':24} {name}")
        return 0
    wrong = list(complaints(rows))
    print("\n".join(wrong) or f"{len(rows)} kernels touch no memory before they wait, "
          "except as allowed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
