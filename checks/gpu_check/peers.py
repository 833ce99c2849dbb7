#!/usr/bin/env python3
"""Speed of PyTorch on this GPU, of the same sizes as twinserve's.

Usage: peers.py MODEL_FOLDER OUT. Writes OUT, a list of {name, value, unit} or {name, error},
after every measurement: a failure, or the end of the time, loses no earlier measurement.
"""
import json
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

REPEATS = 10
results = []
out = pathlib.Path(sys.argv[2])


def record(name, measure, unit):
    """Calls `measure` and keeps what it returns, or why there is nothing."""
    entry = {"name": name}
    try:
        entry.update(value=measure(), unit=unit)
    except Exception as error:  # a peer's own limits are a result
        entry["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
    results.append(entry)
    out.write_text(json.dumps(results, indent=1) + "\n")
    torch.cuda.empty_cache()


def seconds(work):
    """Median of some repeats, by events."""
    for _ in range(3):
        work()
    times = []
    for _ in range(REPEATS):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def product(m, n, k):
    """TFLOP/s of x[m, k] times w[n, k] transposed; weights are rotated, to come from memory."""
    x = random(m, k)
    copies = max(2, min(8, (512 << 20) // (n * k * 2)))
    weights = [random(n, k) for _ in range(copies)]
    turn = iter(range(1 << 30))
    return 2e-12 * m * n * k / seconds(lambda: x @ weights[next(turn) % copies].T)


def copied():
    """TB/s of a copy, read and written bytes together."""
    source = random(256 << 20)
    target = torch.empty_like(source)
    return 2e-12 * source.numel() * 2 / seconds(lambda: target.copy_(source))


def attention(backend, batch, queries, keys, config):
    """Milliseconds of one layer's attention; causal where queries and keys are the same."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config["hidden_size"] // heads
    q = random(batch, heads, queries, width)
    k = random(batch, kv_heads, keys, width)
    v = random(batch, kv_heads, keys, width)
    with sdpa_kernel(backend):
        return 1e3 * seconds(lambda: functional.scaled_dot_product_attention(
            q, k, v, is_causal=queries == keys, enable_gqa=True))


def main():
    torch.manual_seed(1)
    config = json.loads((pathlib.Path(sys.argv[1]) / "config.json").read_text())
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    record("copy", copied, "TB/s")
    for m in (1, 32, 256, 2048, 8192):
        for name, n, k in (("qkv", 6144, hidden), ("output", hidden, hidden),
                           ("up", 2 * inner, hidden), ("down", hidden, inner)):
            record(f"product {name} m={m}", lambda m=m, n=n, k=k: product(m, n, k), "TFLOP/s")
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        for batch, queries, keys in ((1, 2048, 2048), (1, 8192, 8192), (32, 1, 1024),
                                     (32, 1, 4096), (256, 1, 1024)):
            record(f"sdpa {backend.name} {batch} x {queries} of {keys}",
                   lambda b=backend, s=(batch, queries, keys): attention(b, *s, config), "ms")


if __name__ == "__main__":
    main()
