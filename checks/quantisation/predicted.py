"""What the formats do on GPUs that are not here: simulations of a 7B model (deterministic)."""
import csv
import json
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
DEVICES = ("h100", "rtx_4090")
# Weights, cache.
FORMATS = (("bf16", "bf16"), ("fp8", "bf16"), ("fp8", "fp8"), ("int4", "bf16"))
BLOCK_TOKENS = 16
BOUNDS = "p99_ttft_ms<=1000 && p99_tpot_ms<=50"
USERS_MOST = 256
COLUMNS = ("device", "weights", "cache", "weights_gb", "cache_tokens", "one_user_tpot_ms",
           "tokens_per_s", "requests_per_s")


def call(binary, *arguments):
    done = subprocess.run([str(part) for part in (binary, *arguments)], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{arguments[0]}: {said[-1]}")
    return done.stdout


def digits(value):
    """Three digits, as all tables here."""
    return f"{float(f'{value:.3g}'):g}"


def sweep(binary, out):
    """Rows of the study by device, weights, cache and number of users."""
    shutil.rmtree(out / "study", ignore_errors=True)  # rows of another build are refused
    call(binary, "sweep", HERE / "study.textproto", "--out", out / "study")
    with open(out / "study/summary.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {}
    for row in rows:
        if int(row["errors"]):
            raise RuntimeError(f"a run failed, see {out / 'study/results.csv'}")
        found[pathlib.Path(row["base"]).stem, row["system.model_shape.weight_dtype"],
              row["system.model_shape.kv_dtype"], int(row["workload.arrivals.users"])] = row
    return found


def weights_in_bf16(binary):
    """Bytes of the model's weights."""
    models = json.loads(call(binary, "doctor", "--list", "models", "--format", "json"))
    return next(model["weight_bytes"] for model in models if model["model"] == "llama-2-7b")


def capacity(binary, device, weights, cache):
    """Requests per second within the bounds, of Poisson arrivals; 0 if none."""
    answer = json.loads(call(
        binary, "capacity", HERE / f"{device}.textproto",
        "--set", f"system.model_shape.weight_dtype={weights}",
        "--set", f"system.model_shape.kv_dtype={cache}",
        "--set", "workload.arrivals={ kind: poisson rate: 1 }", "--vary", "workload.arrivals.rate",
        "--between", "0.05,100", "--until", BOUNDS, "--replications", "4", "--doublings", "0",
        "--tolerance", "0.02", "--format", "json"))
    return answer["value"] or 0.0


def find_all(binary, out):
    """The rows of predicted.csv."""
    found = sweep(binary, out)
    plain = weights_in_bf16(binary)
    rows = []
    for device in DEVICES:
        blocks = {(weights, cache): float(found[device, weights, cache, 1]["kv_blocks"])
                  for weights, cache in FORMATS}
        for weights, cache in FORMATS:
            # What the weights give up, the cache gets.
            freed = (blocks[weights, "bf16"] - blocks["bf16", "bf16"]) * BLOCK_TOKENS * 524288
            one = found[device, weights, cache, 1]
            rows.append({
                "device": device, "weights": weights, "cache": cache,
                "weights_gb": digits((plain - freed) / 1e9),
                "cache_tokens": str(int(BLOCK_TOKENS * blocks[weights, cache])),
                "one_user_tpot_ms": digits(float(one["mean_tpot_ms"])),
                "tokens_per_s": digits(float(
                    found[device, weights, cache, USERS_MOST]["output_throughput"])),
                "requests_per_s": digits(capacity(binary, device, weights, cache))})
    return rows


def table_of(rows):
    lines = ["| device | weights | cache | weights, GB | cache, tokens | one user: TPOT, ms "
             f"| {USERS_MOST} users: tokens/s | requests/s within the bounds | of bf16 |",
             "|---|---|---|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        plain = next(other for other in rows if other["device"] == row["device"])
        share = float(row["requests_per_s"]) / float(plain["requests_per_s"])
        cells = [row["device"].replace("_", "-"), row["weights"], row["cache"], row["weights_gb"],
                 f"{int(row['cache_tokens']):,}", row["one_user_tpot_ms"],
                 f"{float(row['tokens_per_s']):,g}", row["requests_per_s"], f"{share:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
