"""Speed and memory of the formats on this machine's CPU or GPU, in rounds that alternate them."""
import json
import pathlib
import statistics
import sys
import typing

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from quiet_turn import quiet_turn  # noqa: E402 (its folder comes first)


class Place(typing.NamedTuple):
    """Where formats are measured, and at which loads."""
    device: str
    model: pathlib.Path
    formats: tuple
    prefill: int
    batches: tuple
    decode: int  # steps of a repeat
    users: int  # that load it


CPU = Place("cpu", HERE / "model", ("bf16", "int8", "int4"), 256, (1, 4, 16), 16, 16)
FAST = "fp8 fast"  # summed in the precision of the tensor cores
CONTEXT = 128
LATENCIES = ("mean_ttft_ms", "mean_tpot_ms", "output_throughput")


def cuda(compute_major):
    """A GPU. Only those of compute capability 9.0 multiply matrices of fp8."""
    fast = (FAST,) if compute_major == 9 else ()
    return Place("cuda", HERE.parent / "gpu_check/model", ("bf16", "fp8", *fast, "int4"), 2048,
                 (1, 16, 64), 32, 64)


def bench(binary, place, dtype, patience):
    """Tokens per second by phase, and the largest memory of the program."""
    done = quiet_turn(
        [binary, "bench", "--device", place.device, "--model", place.model, "--dummy-weights",
         "--dtype", dtype.split()[0], *(["--fp8-fast-accumulation"] if dtype == FAST else []),
         "--prefill", place.prefill, "--batch",
         ",".join(map(str, place.batches)), "--context", CONTEXT, "--decode", place.decode,
         "--seconds", 4, "--format", "json"], patience)
    found = {"foreign": done.foreign, "bench_peak_mib": done.peak_mib}
    for line in map(json.loads, done.output.splitlines()):
        phase = "prefill" if line["phase"] == "prefill" else f"decode_{line['batch']}"
        found[f"{phase}_tokens_per_s"] = line["tokens_per_s"]
        found[f"{phase}_gb_per_s"] = line["gb_per_s"]
    return found


def serve(binary, place, dtype, users, out, patience):
    """Latencies and throughput of a closed loop of users."""
    folder = out / f"{place.device}_{dtype.replace(' ', '_')}_{users}"
    done = quiet_turn(
        [binary, "run", HERE / f"{place.device}.textproto", "--out", folder,
         "--set", f"system.model_shape.weight_dtype={dtype.split()[0]}",
         *(["--set", "world.real.fp8_fast_accumulation=true"] if dtype == FAST else []),
         "--set", f"workload.arrivals.users={users}"], patience)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    found = {f"users_{users}_{key}": summary[key] for key in LATENCIES}
    found["foreign"] = done.foreign
    found["run_peak_mib"] = done.peak_mib
    return found


def measure(binary, place, out, rounds, patience):
    """A row per round and format."""
    rows = []
    for number in range(rounds):
        for dtype in place.formats:
            print(f"quantisation: {place.device}, round {number + 1} of {rounds}: {dtype}",
                  file=sys.stderr)
            row = {"device": place.device, "round": number + 1, "format": dtype}
            parts = [bench(binary, place, dtype, patience)]
            parts += [serve(binary, place, dtype, users, out, patience)
                      for users in (1, place.users)]
            for part in parts:
                row.update(part)
            row["foreign"] = max(part["foreign"] for part in parts)
            rows.append(row)
    return rows


def text_of(rows, key, shown="{:,.0f}"):
    """Median, and least and most in brackets."""
    values = [row[key] for row in rows]
    return (f"{shown.format(statistics.median(values))} "
            f"({shown.format(min(values))}-{shown.format(max(values))})")


def table_of(rows, place):
    """The formats side by side."""
    by_format = {dtype: [row for row in rows if row["format"] == dtype]
                 for dtype in place.formats}
    quantities = [(f"prefill of {place.prefill}, tokens/s", "prefill_tokens_per_s", "{:,.0f}")]
    for batch in place.batches:
        quantities.append((f"decode, batch {batch}, tokens/s", f"decode_{batch}_tokens_per_s",
                           "{:,.0f}"))
    for users in (1, place.users):
        who = "one user" if users == 1 else f"{users} users"
        quantities += [(f"{who}: mean TTFT, ms", f"users_{users}_mean_ttft_ms", "{:,.1f}"),
                       (f"{who}: mean TPOT, ms", f"users_{users}_mean_tpot_ms", "{:,.2f}"),
                       (f"{who}: tokens/s", f"users_{users}_output_throughput", "{:,.0f}")]
    quantities += [("memory of `bench`, MiB", "bench_peak_mib", "{:,.0f}"),
                   ("share of the machine that others used, at most, %", "foreign", "{:.0%}")]
    lines = ["| | " + " | ".join(place.formats) + " |", "|---|" + "--:|" * len(place.formats)]
    for name, key, shown in quantities:
        cells = [text_of(by_format[dtype], key, shown) for dtype in place.formats]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
