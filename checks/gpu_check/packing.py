"""The four files of a call, written anew after every stage, so that a cut loses one stage at most."""
import json
import os
import shutil
import tarfile

ARCHIVE_BYTES_MAX = 15 << 20
# What can be made again from the other files.
LEFT_OUT = ("trace.pftrace", "simulated", "report.html")


def free_number(out, wanted):
    """The call's number: the first from `wanted` on that no file in `out` has."""
    number = wanted
    while list(out.glob(f"call_{number}[._]*")):
        number += 1
    return number


def result_files(folder):
    """The result files, smallest first."""
    files = [file for file in folder.rglob("*") if file.is_file()
             and not any(part in LEFT_OUT for part in file.relative_to(folder).parts)]
    return sorted(files, key=lambda file: (file.stat().st_size, str(file)))


def write_archive(archive, folder, name):
    """Packs the folder; leaves out its largest files until the archive is small enough, and returns
    their names. The archive appears whole or not at all."""
    files, left_out = result_files(folder), []
    beside = archive.with_name(archive.name + ".new")
    while True:
        with tarfile.open(beside, "w:xz", preset=6) as packed:
            for file in files:
                packed.add(file, f"{name}/{file.relative_to(folder)}")
        if beside.stat().st_size <= ARCHIVE_BYTES_MAX or not files:
            break
        left_out.append(str(files.pop().relative_to(folder)))
    os.replace(beside, archive)
    return left_out


def replace_text(file, text):
    beside = file.with_name(file.name + ".new")
    beside.write_text(text)
    os.replace(beside, file)


def write_summaries(out, number, summary, text):
    replace_text(out / f"call_{number}_summary.json", json.dumps(summary, indent=1) + "\n")
    replace_text(out / f"call_{number}_summary.txt", text)


def write_results(out, number, check):
    """Writes the algorithms of products, and the archive of all result files."""
    name = f"call_{number}"
    check.write_power()
    if check.algorithms.exists():
        replace_text(out / f"{name}_gemm_algorithms.tsv", check.algorithms.read_text())
        shutil.copy(check.algorithms, check.out)
    left_out = write_archive(out / f"{name}.tar.xz", check.out, name)
    if left_out:
        print(f"gpu_check: left out of {name}.tar.xz, for its size: {', '.join(left_out)}",
              flush=True)
