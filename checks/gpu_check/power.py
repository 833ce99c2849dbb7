"""The stage power: what the device draws while one kind of step is repeated."""
import json
import time

from check import HERE, Failed, Skipped, last_line
from serving import set_words, settings_of_device
from tables import write_csv

# Name -> format of weights, requests that decode together, tokens in the cache, steps of a repeat. Five
# repeats take about five seconds on an H200.
DECODES = {
    "bf16 1 x 1024": ("bf16", 1, 1024, 240),
    "bf16 32 x 1024": ("bf16", 32, 1024, 160),
    "bf16 32 x 4096": ("bf16", 32, 4096, 110),
    "bf16 256 x 1024": ("bf16", 256, 1024, 64),
    "fp8 32 x 1024": ("fp8", 32, 1024, 220),
}
# Format of weights -> prompts of 2,048 tokens that arrive together; each answer is one token.
PREFILLS = {"bf16": 128, "fp8": 192}
# The window that is measured ends this long before the program does, which then frees its memory.
TAIL_SECONDS, WINDOW_SECONDS = 1.0, 3.0


def watts_of(check, words, seconds):
    """What a program printed, and the mean power before its end."""
    done = check.call(words, seconds)
    end = time.time() - TAIL_SECONDS
    if done.returncode != 0:
        raise Failed(f"{words[1]} ended with {done.returncode}: {last_line(done.stderr)}")
    return done.stdout, check.meter.mean_watts(end - WINDOW_SECONDS, end)


def decode_row(check, name, dtype, batch, context, steps):
    text, watts = watts_of(check, [
        check.programs["twinserve"], "bench", "--model", check.model(), "--dummy-weights", "--device",
        "cuda", "--dtype", dtype, "--context", context, "--batch", batch, "--prefill", 0, "--decode",
        steps, "--seconds", 8, "--format", "json", *check.attention_words()], 40)
    entry = json.loads(text.splitlines()[-1])
    return {"step": f"decode {name}", "step_ms": round(entry["step_ms"], 3),
            "tokens": batch, "watts": watts}


def prefill_row(check, dtype, prompts):
    folder = check.out / f"power_prefill_{dtype}"
    settings = [f"workload.requests={prompts}", "workload.arrivals={kind: all_at_once}",
                "workload.shape={prompt {kind: fixed value: 2048} output {kind: fixed value: 1}}",
                "workload.max_output={kind: fixed value: 1}", *settings_of_device(check),
                f"system.model_shape={{weight_dtype: {dtype} kv_dtype: bf16}}",
                "policy.vllm_v1.max_num_batched_tokens=2048"]
    _, watts = watts_of(check, [check.programs["twinserve"], "run", HERE / "vllm_v1.textproto",
                                *set_words(settings), "--out", folder], 60)
    summary = json.loads((folder / "summary.json").read_text())
    return {"step": f"prefill {dtype} 2048", "tokens": 2048,
            "step_ms": round(1e3 * summary["duration_seconds"] / prompts, 3), "watts": watts}


def with_joules(row):
    """The row with its energy."""
    watts = row["watts"]
    if watts is None:
        return {**row, "joules_per_step": None, "joules_per_token": None}
    joules = watts * row["step_ms"] * 1e-3
    return {**row, "watts": round(watts, 1), "joules_per_step": round(joules, 4),
            "joules_per_token": round(joules / row["tokens"], 5)}


def line_of(row):
    return (f"{row['step']}: {row['watts']} W, {row['step_ms']} ms, {row['joules_per_token']} J per "
            "token")


def power(check):
    """Mean power and energy of decode and prefill steps of Llama-3-8B."""
    if check.quick or check.meter is None:
        raise Skipped("NVML tells no power here")
    rows, failed = [], []
    cases = [(decode_row, (name, *sizes)) for name, sizes in DECODES.items()]
    cases += [(prefill_row, case) for case in PREFILLS.items()]
    for measure, arguments in cases:
        try:
            rows.append(with_joules(measure(check, *arguments)))
            write_csv(check.out / "power_steps.csv", rows)
        except Failed as error:
            failed.append(str(error))
    facts = {"steps": rows, "lines": [line_of(row) for row in rows] + failed}
    if failed:
        raise Failed("; ".join(failed), facts)
    return facts
