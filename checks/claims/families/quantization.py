"""8-bit weights: half the memory, no faster (LLM.int8, 2022), and "7B from 13 to 7 GB"."""
from claim import Claim, Quantity
from lengths import fixed
from simulator import Word, experiment

SIZES_GB = (16, 24, 40, 80)
OPEN_MEMORY = "memory that the server needs beside weights and cache"
MEMORY = (
    Quantity("weights_16", "weights of Llama-2-7B in 16 bits, GB", "13", "D", (12.5, 13.6),
             "memory"),
    Quantity("weights_8", "the same in 8 bits", "7", "D", (6.5, 7.3), "memory"),
    Quantity("tokens_16", "16 GB device: cache tokens in 8 bits over 16 bits", "17", "D", (8, 26),
             "memory", OPEN_MEMORY),
    Quantity("tokens_24", "the same, 24 GB", "1.9", "D", (1.7, 2.1), "memory", OPEN_MEMORY),
    Quantity("tokens_40", "the same, 40 GB", "1.3", "D", (1.2, 1.4), "memory", OPEN_MEMORY),
    Quantity("tokens_80", "the same, 80 GB", "1.1", "D", (1.05, 1.15), "memory", OPEN_MEMORY),
    Quantity("serves_24", "24 GB (RTX 4090), conversations, TTFT <= 2 s and TPOT <= 100 ms at p99: "
             "req/s in 8 bits over 16 bits", "-", "D", (1.3, 2.5), "memory, kernels",
             "8-bit kernels: weights are read in 8 bits, products run at the 16-bit rate"),
    Quantity("serves_80", "the same on an A100-80GB", "-", "D", (0.95, 1.3), "kernels",
             "8-bit kernels, as above"),
)
INT8 = (
    Quantity("step_1", "ms a token at batch 1: int8 on 4 GPUs / bf16 on 8", "1.03", "R",
             (0.95, 1.1), "kernels", "int8 kernels; BLOOM-176B is replaced by OPT-175B, of nearly "
             "equal shape"),
    Quantity("step_8", "the same, batch 8", "1.03", "R", (0.95, 1.1), "kernels", "as above"),
    Quantity("step_32", "the same, batch 32", "0.95", "R", (0.9, 1.1), "kernels", "as above"),
)
# Products in 16 bits after the weights have been read in 8: int8 peaks equal the 16-bit ones.
SHAPES = {16: {"weight_dtype": Word("fp16")}, 8: {"weight_dtype": Word("int8")}}
BF16_PEAK = {"rtx-4090": 165.2e12, "a100-80gb-sxm": 312e12}


def system(hardware, bits, memory=None, spec=None, **more):
    return {"hardware": hardware, "model_shape": SHAPES[bits],
            "hardware_spec": {"peak_int8_flops": BF16_PEAK[hardware], **(spec or {})},
            "memory": {"rule": Word("vllm_v0"), "non_framework_bytes": 500000000,
                       "activation_bytes": 0, **(memory or {})}, **more}


def cache_tokens(simulator, gigabytes, bits):
    text = experiment(
        workload={"requests": 1, "arrivals": {"kind": Word("all_at_once")},
                  "shape": {"prompt": fixed(16), "output": fixed(2)}},
        policy={"vllm_v0": {"max_model_len": 512}},
        system=system("a100-80gb-sxm", bits, spec={"memory_bytes": gigabytes * 10 ** 9},
                      model="llama-2-7b"),
        cost={"constant": {}})
    return 16 * simulator.sweep(f"quantization/{gigabytes}_{bits}", {"run": text})[0]["kv_blocks"]


def served(simulator, hardware, bits):
    text = experiment(
        workload={"requests": 600, "preset": Word("conversation"),
                  "arrivals": {"kind": Word("poisson"), "rate": 1}},
        policy={"vllm_v1": {"max_model_len": 4096}},
        system=system(hardware, bits, model="llama-2-7b"), cost={"roofline": {}})
    return simulator.capacity(f"quantization/served_{hardware}_{bits}", text,
                              "p99_ttft_ms<=2000 && p99_tpot_ms<=100", (0.05, 60), tolerance=0.02)


def find(simulator):
    tokens = {(size, bits): cache_tokens(simulator, size, bits)
              for size in SIZES_GB for bits in SHAPES}
    simulator.write_curve("quantization", [{"gigabytes": size, "tokens_16_bit": tokens[size, 16],
                                            "tokens_8_bit": tokens[size, 8]} for size in SIZES_GB])
    serves = {hardware: served(simulator, hardware, 8) / served(simulator, hardware, 16)
              for hardware in BF16_PEAK}
    parameters = simulator.billions_of_parameters()["llama-2-7b"]
    return {"weights_16": 2 * parameters, "weights_8": parameters,
            **{f"tokens_{size}": tokens[size, 8] / tokens[size, 16] for size in SIZES_GB},
            "serves_24": serves["rtx-4090"], "serves_80": serves["a100-80gb-sxm"]}


def find_int8(simulator):
    ratio = {}
    for batch in (1, 8, 32):
        load = {"requests": batch, "arrivals": {"kind": Word("all_at_once")},
                "shape": {"prompt": fixed(16), "output": fixed(100)}}
        rows = simulator.sweep(f"quantization/int8_{batch}", {
            name: experiment(workload=load, policy={"orca": {"max_bs": batch}},
                             system=system("a100-80gb-sxm", bits, {"blocks_override": 1000},
                                           model="opt-175b", tensor_parallel=ranks),
                             cost={"roofline": {}})
            for name, bits, ranks in (("bf16", 16, 8), ("int8", 8, 4))})
        tpot = {row["base"]: row["mean_tpot_ms"] for row in rows}
        ratio[f"step_{batch}"] = tpot["int8"] / tpot["bf16"]
    return ratio


CLAIMS = [
    Claim("int8_7b", "A 7B model from 13 to 7 GB in 8 bits, and what it serves then",
          "advice; claim 13",
          "Llama-2-7B, 90 % of the memory less 0.5 GB; conversations, Poisson, vLLM V1; roofline",
          MEMORY, find),
    Claim("llm_int8", "LLM.int8: half the memory, no faster", "Dettmers et al. 2022, Table 6",
          "OPT-175B in place of BLOOM-176B, A100-80GB, tensor parallel, batches of 1, 8, 32; "
          "roofline",
          INT8, find_int8, quick=True,
          needs="3- and 4-bit weights (GPTQ: 3.25x and 4.5x; AWQ: 3-4x at batch 1)"),
]
