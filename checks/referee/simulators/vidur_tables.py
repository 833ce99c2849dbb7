"""Steps from Vidur's published operation tables of the H100 (microsoft/vidur, MIT).

Command: checks/referee/run --simulator vidur_tables

A step is, as Vidur adds it up, embedding + layers x (the nine dense operations + attention + two
all-reduces). Dense operations and all-reduces are Vidur's medians, interpolated between measured
sizes. Its attention tables of the H100 could not be read (they are larger than the copy keeps), so
attention of decodes is the bytes of keys and values over the data sheet's 3.35 TB/s, the least that
it can take. Vidur's default leaves the host out, and so does this. The number of decodes is that of
Little's law; a request waits for half a step and then takes one with its computed tokens.

imported/vidur_h100.csv was written from Vidur's files by

    python3 checks/referee/simulators/vidur_tables.py FOLDER_OF_SHARED_DATA_PERF_VIDUR
"""
import bisect
import csv
import functools
import gzip
import pathlib
import re
import sys

REFEREE = pathlib.Path(__file__).resolve().parent.parent
TABLE = REFEREE / "imported/vidur_h100.csv"
BYTES_PER_US = 3.35e6  # of the H100 SXM's memory
# Layers, hidden size and KV heads of the models in Vidur's H100 tables that were recorded, too.
MODELS = {"llama-2-7b": ("meta-llama/Llama-2-7b-hf", 32, 4096, 32),
          "codellama-34b": ("codellama/CodeLlama-34b-Instruct-hf", 48, 8192, 8)}
DENSE = ("input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj",
         "post_attention_layernorm", "mlp_up_proj", "mlp_act", "mlp_down_proj", "add")
VALUE_BYTES, HEAD = 2, 128


@functools.cache
def curves():
    """{(kind, key): sorted [(size, us)]}."""
    found = {}
    with TABLE.open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["kind"], row["key"]), []).append(
                (float(row["size"]), float(row["us"])))
    return {key: sorted(points) for key, points in found.items()}


def at(curve, size):
    """Linear between points, the first below them."""
    place = bisect.bisect_left(curve, (size, 0.0))
    if place == 0:
        return curve[0][1]
    if place == len(curve):
        return curve[-1][1] * size / curve[-1][0]
    (x0, y0), (x1, y1) = curve[place - 1:place + 1]
    return y0 + (size - x0) / (x1 - x0) * (y1 - y0)


def step_ms(run, decodes, context, prompt_tokens=0):
    """A step of `decodes` requests with `context` tokens each, and a prompt's computed tokens."""
    name, layers, hidden, kv_heads = MODELS[run.model]
    tokens = decodes + prompt_tokens
    key = f"{name} tp{run.tensor}"
    layer = at(curves()["layer", key], tokens)
    kv_bytes = 2 * VALUE_BYTES * HEAD * kv_heads / run.tensor * context
    layer += decodes * kv_bytes / BYTES_PER_US
    if run.tensor > 1:
        layer += 2 * at(curves()["all_reduce", str(run.tensor)], tokens * hidden * VALUE_BYTES)
    return 1e-3 * (at(curves()["embedding", key], tokens) + layers * layer)


def identity():
    return TABLE.read_text() + (REFEREE / "workload.py").read_text()


def predict(run):
    import workload
    from prediction import NotCovered, Prediction
    if run.gpu != "h100-sxm":
        raise NotCovered("Vidur has no tables of this GPU" if "rtx" in run.gpu
                         else f"the tables of {run.gpu} were not imported")
    if run.model not in MODELS:
        raise NotCovered(f"Vidur's H100 tables of {run.model} do not exist or were not imported")
    load = workload.load_of(run)
    if load.prompt - load.cached > 64:
        raise NotCovered("prompts that are computed need Vidur's attention table of prompts")
    context = load.prompt + load.output / 2

    def latencies_at(n):
        decode = step_ms(run, n, context)
        return decode / 2 + step_ms(run, n, context, load.prompt - load.cached), decode
    most = int(re.search(r"max_num_seqs: (\d+)", run.policy)[1])
    return Prediction(*workload.settled(latencies_at, load, most))


def imported_rows(folder):
    """Rows of TABLE from dense_ops.csv.gz and network.csv.gz."""
    names = {name for name, *_ in MODELS.values()}
    with gzip.open(folder / "dense_ops.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row["gpu"] == "h100" and row["model"] in names:
                key = f"{row['model']} tp{row['tp']}"
                layer = sum(float(row[f"{name}_us"]) for name in DENSE)
                yield "layer", key, row["num_tokens"], f"{layer:.2f}"
                yield "embedding", key, row["num_tokens"], row["emb_us"]
    with gzip.open(folder / "network.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            if (row["system"], row["op"]) == ("h100_dgx", "all_reduce"):
                yield "all_reduce", row["num_workers"], row["bytes"], row["latency_us"]


def write_table(folder):
    """One and two ranks, and up to 512 tokens: recorded decodes have no more."""
    most = {"layer": 512, "embedding": 512, "all_reduce": 512 * 8192 * VALUE_BYTES}
    rows = {row for row in imported_rows(folder)
            if float(row[2]) <= most[row[0]] and row[1][-1] in "12"}
    with TABLE.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["kind", "key", "size", "us"])
        out.writerows(sorted(rows, key=lambda row: (row[0], row[1], float(row[2]))))


if __name__ == "__main__":
    write_table(pathlib.Path(sys.argv[1]))
