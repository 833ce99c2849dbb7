"""One token beyond a tile, and the size of a chunk against prefill efficiency (Sarathi, Fig. 7;
NVIDIA DU-09799)."""
from claim import Claim, Quantity
from families.sarathi import A6000_SHEET, A6000_SYSTEM
from lengths import fixed
from simulator import Word, experiment

CHUNKS = (64, 128, 256, 512, 1024, 2048)
PROMPT = 2000
TILES = (
    Quantity("a6000_257", "A6000, roofline with tiles of 128 tokens: step of 257 over 256 tokens",
             "1.32", "R", (1.2, 1.5), "kernels", "tile shapes and SMs of each layer's product"),
    Quantity("a100_257", "A100, measured tables, Llama-2-13B: 257 over 256 tokens", "a few % now",
             "D", (0.98, 1.1), "kernels"),
    Quantity("h100_257", "H100, the same", "a few % now", "D", (0.98, 1.1), "kernels"),
    Quantity("h100_over_5", "H100: multiples of 64 up to 2,048 at which one more token costs over "
             "5 %", "some", "D", (1, 31), "kernels"),
)
EFFICIENCY = (
    Quantity("a6000_64", "A6000, roofline: prefill in chunks of 64 over whole", "5", "R", (3, 6),
             "kernels", "the A6000's achieved rates"),
    Quantity("a6000_128", "the same, 128", "over 2", "R", (2, 3), "kernels",
             "the A6000's achieved rates"),
    Quantity("a6000_256", "the same, 256", "at most 1.2", "R", (1.0, 1.2), "kernels",
             "the A6000's achieved rates"),
    Quantity("a6000_512", "the same, 512", "at most 1.1", "R", (1.0, 1.1), "kernels",
             "the A6000's achieved rates"),
    Quantity("a100_512", "A100-80GB, measured profile: 512", "at most 1.25 (Sarathi-Serve)", "R",
             (1.0, 1.25), "kernels"),
    Quantity("h100_512", "H100, measured profile: 512", "-", "D", (1.0, 1.5), "kernels"),
)
A6000_COST = {"roofline": {"gemm_tile_tokens": 128}}


def overflow(simulator, hardware, sizes):
    """By size: time of a prefill of one more token over a prefill of the size."""
    steps = [(0, 0, 1, size + more) for size in sizes for more in (0, 1)]
    times = simulator.predicted_steps(f"tiles/{hardware}", steps, "llama-2-13b", hardware)
    return {size: times[2 * i + 1] / times[2 * i] for i, size in enumerate(sizes)}


def prefill_text(prompt, chunk, system, cost):
    return experiment(
        workload={"requests": 1, "arrivals": {"kind": Word("all_at_once")},
                  "shape": {"prompt": fixed(prompt), "output": fixed(1)}},
        policy={"sarathi": {"chunk_size": chunk, "max_model_len": 2048}}, system=system, cost=cost)


def find_tiles(simulator):
    a6000 = {tokens: simulator.sweep(
        f"tiles/a6000_{tokens}",
        {"run": prefill_text(tokens, 2048, {**A6000_SYSTEM, "hardware_spec": A6000_SHEET},
                             A6000_COST)})[0]["mean_ttft_ms"] for tokens in (256, 257)}
    sizes = range(64, 2049, 64)
    h100 = overflow(simulator, "h100-sxm", sizes)
    a100 = overflow(simulator, "a100-80gb-sxm", sizes)
    simulator.write_curve("tiles", [{"tokens": size, "a100": a100[size], "h100": h100[size]}
                                    for size in sizes])
    return {"a6000_257": a6000[257] / a6000[256], "a100_257": a100[256], "h100_257": h100[256],
            "h100_over_5": sum(ratio > 1.05 for ratio in h100.values())}


def chunk_costs(simulator, name, system, cost):
    """Prefill time of a prompt in chunks over the time of the whole, by chunk."""
    rows = simulator.sweep(f"tiles/chunks_{name}",
                           {"run": prefill_text(PROMPT, 2048, system, cost)},
                           [("policy.sarathi.chunk_size", CHUNKS)])
    times = {int(row["policy.sarathi.chunk_size"]): row["mean_ttft_ms"] for row in rows}
    return {chunk: time / times[2048] for chunk, time in times.items()}


def find_efficiency(simulator):
    measured = {"profile": {"engine": Word("v0")}}
    quiet = {"boundary": {"request_s": {}, "response_s": {}, "client_reaction_s": {}}}
    costs = {
        "a6000": chunk_costs(simulator, "a6000", {**A6000_SYSTEM, "hardware_spec": A6000_SHEET},
                             A6000_COST),
        "a100": chunk_costs(simulator, "a100", {"model": "llama-2-13b", "hardware": "a100-80gb-sxm",
                                                **quiet}, measured),
        "h100": chunk_costs(simulator, "h100", {"model": "llama-2-13b", "hardware": "h100-sxm",
                                                **quiet}, measured)}
    simulator.write_curve("chunks", [{"chunk": chunk, **{name: cost[chunk] for name, cost in
                                                         costs.items()}} for chunk in CHUNKS])
    return {**{f"a6000_{chunk}": costs["a6000"][chunk] for chunk in (64, 128, 256, 512)},
            "a100_512": costs["a100"][512], "h100_512": costs["h100"][512]}


CLAIMS = [
    Claim("tiles", "One token beyond a tile", "Sarathi, Fig. 7; NVIDIA DU-09799",
          "a prefill of n and of n + 1 tokens, 13B: roofline with tiles on the A6000, measured "
          "tables on A100 and H100", TILES, find_tiles, quick=True),
    Claim("chunks", "Chunk size against prefill efficiency", "Sarathi, section 4; Sarathi-Serve, "
          "Fig. 14",
          "13B, one prompt of 2,000 tokens in chunks against whole", EFFICIENCY, find_efficiency,
          quick=True),
]
