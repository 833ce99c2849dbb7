"""The stages in which policies serve requests: measured, replayed and predicted by `validate`."""
import json

from check import HERE, Failed
from devices import RUNS, hardware
from tables import write_csv

METRICS = ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms")
CONTEXT = "max_model_len: 4608"
VLLM_V0 = f"vllm_v0 {{max_num_batched_tokens: 4608 max_num_seqs: 64 {CONTEXT}"
# Name -> assignments beside those of vllm_v1.textproto; the number of runs. 20 requests a second.
POLICIES = {
    "vllm_v1": ([], 3),
    "sglang": (["policy={sglang {max_running_requests: 64 chunked_prefill_size: 4096}}"], 1),
    "vllm_v0": ([f"policy={{{VLLM_V0}}}}}"], 1),
    "sarathi": ([f"policy={{sarathi {{chunk_size: 512 max_num_seqs: 64 {CONTEXT}}}}}"], 1),
    "splitfuse": (["policy={splitfuse {max_ragged_batch_size: 768}}"], 1),
    "trtllm": (["policy={trtllm {max_batch_size: 64 max_num_tokens: 4608}}"], 1),
    "orca": ([f"policy={{orca {{max_bs: 64 {CONTEXT}}}}}"], 1),
    "static": ([f"policy={{static {{max_batch_size: 32 {CONTEXT}}}}}"], 1),
}
# The same policy at other rates, and policies that preempt for lack of KV blocks.
FEW_BLOCKS = ["system.memory={block_size: 16 blocks_override: 700 swap_bytes: 17179869184}"]
LOADS = {
    "rate_10": (["workload.arrivals.rate=10"], 1),
    "rate_30": (["workload.arrivals.rate=30"], 1),
    "rate_40": (["workload.arrivals.rate=40"], 1),
    "recompute": (["system.memory={block_size: 16 blocks_override: 450}"], 1),
    "swap": ([f"policy={{{VLLM_V0} preemption_mode: swap}}}}", *FEW_BLOCKS], 1),
    "fastserve": ([f"policy={{fastserve {{max_batch_size: 32 max_tokens_per_batch: 4608 {CONTEXT}}}}}",
                   *FEW_BLOCKS], 1),
}


def format_of(weights):
    return f"system.model_shape={{weight_dtype: {weights} kv_dtype: bf16}}"


# Other models and formats. On an H200 all fit; each reads about 100 GB of weights at most.
MODELS = {
    "llama-3-8b_fp8": ([format_of("fp8")], 1),
    "llama-3-8b_int4": ([format_of("int4")], 1),
    "qwen3-14b": (["system.model=qwen3-14b", "workload.arrivals.rate=10"], 1),
    "qwen3-30b-a3b": (["system.model=qwen3-30b-a3b", "workload.arrivals.rate=5",
                       "workload.requests=80"], 1),
    "llama-3-70b_fp8": (["system.model=llama-3-70b", format_of("fp8"),
                         "workload.arrivals.rate=3", "workload.requests=48"], 1),
    "mixtral-8x7b": (["system.model=mixtral-8x7b", "workload.arrivals.rate=3",
                      "workload.requests=48"], 1),
}
SECONDS_MAX = 75  # of one row


def settings_of_device(check):
    """Assignments that let vllm_v1.textproto run on this device."""
    settings = []
    if check.attention != "auto":
        settings.append(f"world.real.attention={check.attention}")
    if hardware(check):
        settings.append(f"system.hardware={hardware(check)}")
    return settings


def settings_of_run(check, rate):
    """Assignments that make vllm_v1.textproto the run of this device."""
    return ["cost=profile {}", f"workload.arrivals.rate={rate}", *settings_of_device(check)]


def set_words(settings):
    """The assignments as options of a command."""
    return [word for setting in settings for word in ("--set", setting)]


def quick_settings(check):
    """Assignments that make the run of any row small enough for an emulated device."""
    return [f"system.model={check.model()}/", "workload.requests=6", "workload.arrivals.rate=20",
            "workload.shape.prompt={kind: uniform min: 1 max: 12}",
            "workload.shape.output={kind: uniform min: 2 max: 4}",
            "system.memory={block_size: 16 blocks_override: 64}",
            "policy={vllm_v1 {max_num_batched_tokens: 4096 max_num_seqs: 64 max_model_len: 128}}"]


def validate(check, name, settings, repeats, seconds):
    """What `validate` says of vllm_v1.textproto with these assignments, the last ones first."""
    settings = settings + (quick_settings(check) if check.quick else [])
    return json.loads(check.twinserve(
        ["validate", HERE / "vllm_v1.textproto", "--repeats", repeats, "--format", "json", "--out",
         check.out / name, *set_words(settings)], seconds))


def number(value):
    return "-" if value is None else f"{value:.2f}"


def lines_of_run(told, rate, device_hardware):
    """Every metric beside what was predicted in advance, and by validate, for what really came."""
    advance = RUNS.get(device_hardware, {}).get(rate, {})
    lines = [f"{rate} requests a second, replay {'equal' if told['digest_equal'] else 'DIFFERS'}"]
    for metric in METRICS:
        value = told["metrics"][metric]
        lines.append(f"{metric} {number(value['measured'])}, predicted in advance "
                     f"{number(advance.get(metric))}; validate is {number(value['error_percent'])}"
                     " % off")
    steps = told["steps"]["all"]
    return lines + [f"steps: bias {number(steps['bias_percent'])} %, median error "
                    f"{number(steps['median_error_percent'])} %"]


def serve(check):
    """The stage run: vLLM V1 serves Llama-3-8B with random weights; twice as fast in quarter 2."""
    rate = 40 if check.quarter == 2 else 20
    told = validate(check, "run", settings_of_run(check, rate), 1, 150)
    facts = {"validation": {key: told[key] for key in ("digest_equal", "metrics", "steps")},
             "lines": lines_of_run(told, rate, hardware(check))}
    if not told["digest_equal"]:
        raise Failed("replay decided otherwise", facts)
    return facts


def row_of(name, told):
    """A row of the CSV file of a stage."""
    row = {"name": name, "replay": "equal" if told["digest_equal"] else "DIFFERS"}
    for metric in METRICS:
        value = told["metrics"][metric]
        row[metric] = value["measured"]
        row[f"{metric}_predicted"] = value["predicted"]
        row[f"{metric}_error_percent"] = value["error_percent"]
    steps = told["steps"]["all"]
    return {**row, "steps_bias_percent": steps["bias_percent"],
            "steps_median_error_percent": steps["median_error_percent"]}


def line_of(row):
    return (f"{row['name']}: replay {row['replay']}, TTFT {number(row['mean_ttft_ms'])} ms "
            f"({number(row['mean_ttft_ms_error_percent'])} %), TPOT {number(row['mean_tpot_ms'])} ms "
            f"({number(row['mean_tpot_ms_error_percent'])} %), end to end "
            f"{number(row['mean_e2el_ms'])} ms ({number(row['mean_e2el_ms_error_percent'])} %)")


def serve_each(check, stage, table):
    """The workload of `run` for each row of a table; writes STAGE.csv as rows come."""
    rows, failed = [], []
    for name, (settings, repeats) in list(table.items())[:1 if check.quick else None]:
        try:
            told = validate(check, f"{stage}/{name}", settings_of_run(check, 20) + settings,
                            repeats, SECONDS_MAX)
        except Failed as error:
            failed.append(f"{name}: {error}")
            continue
        rows.append(row_of(name, told))
        write_csv(check.out / f"{stage}.csv", rows)
        if not told["digest_equal"]:
            failed.append(f"{name}: replay decided otherwise")
    facts = {stage: rows, "lines": [line_of(row) for row in rows] + failed}
    if failed:
        raise Failed("; ".join(failed), facts)
    return facts


def policies(check):
    return serve_each(check, "policies", POLICIES)


def loads(check):
    return serve_each(check, "loads", LOADS)


def models(check):
    return serve_each(check, "models", MODELS)
