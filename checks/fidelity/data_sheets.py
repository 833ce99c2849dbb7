"""Data sheets of GPUs, closed forms of operations computed from them, and measurements of a few models.

Every closed form has coefficients that are the same for all chips, in cycles, shares of the data
sheet, and nanoseconds, and writes the profile that they make of one GPU. Standard library only.
"""
import csv
import gzip
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Systems of aiconfigurator and their data sheets.
GPUS = {"a100_sxm": "a100-80gb-sxm", "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "l40s": "l40s"}
# GPUs whose operations lie in aic2, beside those of GPUS.
NEWER = {"b200_sxm": "b200", "gb200": "gb200"}
# GPUs of which others measured the products of some models: tables beside aiconfigurator's.
OTHERS = {"a30": "a30", "rtx4090": "rtx-4090", "rtxpro6000": "rtx-pro-6000-server"}
WATTS_OF_RTX_4090 = 450  # of its data sheet; the other GPUs are in aiconfigurator's hw_specs.csv
# GPUs that share a chip are held out together.
CHIPS = [["a100_sxm"], ["h100_sxm", "h200_sxm"], ["l40s"], ["a30"], ["rtx4090"], ["rtxpro6000"]]
# Of the closed form (sim/devices/operations/gemm_profile.h): start of the fit, and the power of the
# clock in it. Launches, waves and L2 take cycles.
GEMM = {"bandwidth_fraction": (0.8, 0),
                "latency_s": (4000, -1), "tile_loss": (75, 0), "wave_s": (1500, -1),
                "saturating_tiles": (0.5, 0), "split_s": (4500, -1), "l2_bytes_per_s": (160, 1),
                "overlap": (2.5, 0), "wave_rounding": (0.2, 0), "weight_copies": (6, 0),
                "resident_bytes_per_s": (12, 1)}
ATMOST = {"bandwidth_fraction": 1.0, "wave_rounding": 1.0}
ATLEAST = {"overlap": 1.0}
# Of large products: a share of the peak, and bf16 operations per joule of the board's power. Starts
# of the fit.
LIMITS = {"flops_fraction": 0.75, "flops_per_joule": 0.7e12}
WIDE_TENSOR_CORE = 3000  # operations per cycle and SM; no wider one was measured at its limit
# Of attention (sim/devices/operations/unmeasured_device.cc), vLLM's kernels: start of the fit and what
# it is in, in the order of attention_kernel.h. Cycles become microseconds.
CONTEXT = {"launch": (10500, "cycles"), "per_request": (25, "cycles"), "tile": (9400, "of_tile"),
           "key": (0.59, "peak"), "sharpness": (0.8, "number"), "write_rate": (0.53, "memory"),
           "query_rate": (0.74, "memory"), "l2_rate": (5.7, "l2_rate"), "l2_bytes": (1.5, "l2")}
GENERATION = {"launch": (21600, "cycles"), "per_block": (6900, "cycles"), "rate": (0.83, "memory"),
              "l2_rate": (21, "l2_rate"), "key": (15.6, "ns"), "split": (5300, "cycles"),
              "l2_bytes": (0.89, "l2")}
ATTENTION = {"context_attention": ("context", CONTEXT),
             "generation_attention": ("generation", GENERATION)}
# Standard deviations of logarithms, so that 90 % intervals hold 90 % of a chip's measurements.
SPREADS = {"context": 0.17, "generation": 0.3}


def open_table(path):
    if not path.is_file():
        sys.exit(f"held_out: {path} does not exist; DATA or TWIN_SHARED names the folder")
    return gzip.open(path, "rt", newline="")


def measured_by_vidur(data, gpu):
    """(m, n, k, microseconds) of the products of the layers in Vidur's table."""
    with open_table(data.parent / "vidur/dense_ops.csv.gz") as file:
        for row in csv.DictReader(file):
            if row["gpu"] != gpu:
                continue
            hidden, ffn, ranks = (int(row[name]) for name in ("n_embd", "ffn", "tp"))
            heads = int(row["n_head"]) + 2 * int(row["n_kv_head"])
            gates = 2 if row["gated"].lower() in ("1", "true") else 1
            attention = heads * hidden // int(row["n_head"])
            products = {"attn_pre_proj": (attention // ranks, hidden),
                        "attn_post_proj": (hidden, hidden // ranks),
                        "mlp_up_proj": (gates * ffn // ranks, hidden),
                        "mlp_down_proj": (hidden, ffn // ranks)}
            for name, (n, k) in products.items():
                if float(row[f"{name}_us"] or 0) > 0:
                    yield row["num_tokens"], n, k, row[f"{name}_us"]


def measured_by_llmservingsim(data, gpu):
    """The same of Llama-3.1-8B in LLMServingSim's profile of the GPU."""
    split_n = {"qkv_proj": (6144, 4096), "gate_up_proj": (28672, 4096)}
    split_k = {"o_proj": (4096, 4096), "down_proj": (4096, 14336)}
    path = data.parent / f"llmservingsim/profile_{gpu}_llama-3.1-8b_dense.csv.gz"
    with open_table(path) as file:
        for row in csv.DictReader(file):
            ranks, layer = int(row["tp"]), row["layer"]
            if layer in split_n:
                n, k = split_n[layer]
                yield row["tokens"], n // ranks, k, row["time_us"]
            elif layer in split_k:
                n, k = split_k[layer]
                yield row["tokens"], n, k // ranks, row["time_us"]


def sheet_name(gpu):
    return (GPUS | NEWER | OTHERS)[gpu]


def data_sheet(gpu):
    text = (ROOT / f"sim/devices/hardware/{sheet_name(gpu)}.textproto").read_text()
    return {name: float(value) for name, value in re.findall(r"^(\w+): ([\d.e+-]+)$", text, re.M)}


def has_64_lanes(sheet):
    """As sim/devices/operations/unmeasured_device.cc."""
    return sheet["peak_fp32_flops"] / sheet["sm_count"] / 256 < 1e9


def clock_hertz(sheet):
    """As sim/devices/operations/unmeasured_device.h."""
    clock = sheet["peak_fp32_flops"] / sheet["sm_count"] / 256
    return 2 * clock if has_64_lanes(sheet) else clock


def board_watts(data, gpu):
    path = data / "hw_specs.csv"
    if not path.is_file():
        sys.exit(f"held_out: {path} does not exist; DATA or TWIN_SHARED names the folder")
    with path.open(newline="") as file:
        watts = {row["system"]: float(row["gpu.power"]) for row in csv.DictReader(file)}
    return watts.get({"rtxpro6000": "rtx_pro_6000_server"}.get(gpu, gpu), WATTS_OF_RTX_4090)


def flops_fraction(sheet, watts, share, flops_per_joule):
    """What a product reaches of the peak, where power may limit it."""
    share = min(1.0, share)
    peak = sheet["peak_bf16_flops"]
    if tensor_width(sheet) > WIDE_TENSOR_CORE:
        return share
    limit = flops_per_joule * watts / peak
    return (share ** -8 + limit ** -8) ** (-1 / 8)


def write_gemm(folder, gpu, watts, units):
    sheet = data_sheet(gpu)
    limits = units[len(GEMM):]
    clock = clock_hertz(sheet)
    fields = [f"flops_fraction: {flops_fraction(sheet, watts, *limits):.6g}"]
    for (name, (_, power)), value in zip(GEMM.items(), units):
        value = max(ATLEAST.get(name, 0), min(ATMOST.get(name, math.inf), value))
        fields.append(f"{name}: {value * clock ** power:.6g}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gemm.textproto").write_text(
        f"fits {{ format: bf16 log_sd: 0.2 {' '.join(fields)} }}\n")


def tensor_width(sheet):
    """Operations of the tensor cores per cycle and SM."""
    return sheet["peak_bf16_flops"] / sheet["sm_count"] / clock_hertz(sheet)


def attention_value(sheet, value, unit, tile_rows):
    """In the units of attention_kernel.h: microseconds, bytes, bytes per microsecond."""
    cycles = clock_hertz(sheet) * 1e-6
    if unit == "cycles":
        return value / cycles
    if unit == "of_tile":  # cycles of one of 128 rows
        return value * tile_rows / 128 / cycles
    if unit == "peak":  # a key of 128 numbers against the queries of a tile
        return 1e6 * 4 * 128 * tile_rows * sheet["sm_count"] / (value * sheet["peak_bf16_flops"])
    if unit == "l2_rate":
        return value * cycles * sheet["sm_count"]
    factors = {"memory": sheet["memory_bandwidth_bytes_per_s"] * 1e-6, "l2": sheet["l2_bytes"],
               "ns": 1e-3, "number": 1}
    return value * factors[unit]


def write_attention(folder, gpu, op, units):
    sheet = data_sheet(gpu)
    kind, form = ATTENTION[op]
    wide = tensor_width(sheet) > WIDE_TENSOR_CORE
    tile_rows = 128 if wide else 64
    fitted = ", ".join(f"{attention_value(sheet, value, unit, tile_rows):.6g}"
                       for (_, unit), value in zip(form.values(), units, strict=True))
    if kind == "context":
        slots = 2 if has_64_lanes(sheet) and not wide else 1
        chosen = f"packs_heads: {str(wide).lower()} tile_rows: {tile_rows}"
    else:
        slots = 2
        chosen = f"splits_single_heads: {str(wide).lower()}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "attention.textproto").write_text(
        f"tables {{ kind: {kind} library: vllm head_dim: 128 spread: {SPREADS[kind]}\n"
        f"  {kind}_kernel {{ fitted: [{fitted}] {chosen} slots_per_multiprocessor: {slots} }} }}\n")


def write_closed_form(folder, gpu, op, watts, units):
    if op == "gemm":
        write_gemm(folder, gpu, watts, units)
    else:
        write_attention(folder, gpu, op, units)


def start_of_fit(op):
    if op == "gemm":
        return [value for value, _ in GEMM.values()] + list(LIMITS.values())
    return [value for value, _ in ATTENTION[op][1].values()]
