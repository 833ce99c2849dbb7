"""Small studies and run directories, written by hand, for the tests of plots/."""
import json

RATE = "workload.arrivals.rate"


def write_summary_csv(folder, rows, settings=(RATE,)):
    """rows: dictionaries of cells; n and saturated have defaults."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = [key for key in rows[0] if key not in {*settings, "n", "saturated"}]
    lines = [",".join(["point", *settings, "n", "errors", "saturated", *keys])]
    for number, row in enumerate(rows):
        cells = [number, *(row[name] for name in settings), row.get("n", 5), 0,
                 row.get("saturated", "no"), *(row[key] for key in keys)]
        lines.append(",".join(map(str, cells)))
    (folder / "summary.csv").write_text("\n".join(lines) + "\n")
    return folder


def two_policies(folder):
    """Attainment of `orca` falls from 1 to 0.8 between 2 and 3 requests/s, so it is 0.9 at 2.5."""
    rows = [{"base": f"{policy}.textproto", RATE: rate, "saturated": saturated,
             "slo_attainment": attainment, "good_rate": rate * attainment,
             "offered_rate": rate * 1.01, "mean_ttft_ms": ttft, "mean_ttft_ms_low": 0.9 * ttft,
             "mean_ttft_ms_high": 1.1 * ttft, "p99_ttft_ms": 10 * ttft, "p99_tpot_ms": 20 + ttft,
             "mean_tpot_ms": 20, "output_throughput": 100 * rate}
            for policy, rate, saturated, attainment, ttft in [
                ("orca", 1, "no", 1, 50), ("orca", 2, "no", 1, 60), ("orca", 3, "yes", 0.8, 9000),
                ("vllm_v1", 1, "no", 1, 40), ("vllm_v1", 2, "no", 1, 45),
                ("vllm_v1", 3, "no", 0.95, 70)]]
    return write_summary_csv(folder, rows, ("base", RATE))


def write_results_csv(folder, values, metric):
    """The runs of a study beside its summary.csv: by point, the values of one metric."""
    rows = [f"{point},{seed},{seed},{value},{error}" for point, runs in enumerate(values)
            for seed, (value, error) in enumerate(runs)]
    (folder / "results.csv").write_text(
        "\n".join([f"point,replication,seed,{metric},error", *rows]) + "\n")


def many_lines(folder, count):
    """A study of `count` chunk sizes at two rates."""
    rows = [{"policy.sarathi.chunk_size": 64 * (line + 1), RATE: rate, "mean_ttft_ms": line + rate}
            for line in range(count) for rate in (1, 2)]
    return write_summary_csv(folder, rows, ("policy.sarathi.chunk_size", RATE))


def write_run(folder, policy="orca", rate=1.0, seed=1, requests="", steps=None, parts=None,
              summary=None, gaps=None, settings="max_num_seqs: 8", memory="any", name=None):
    """name: as in the file, in quotes."""
    folder.mkdir(parents=True)
    named = f"name: {name}\n" if name else ""
    (folder / "config.resolved.textproto").write_text(f"""schema_version: 1
{named}seed: {seed}
workload {{
  arrivals {{
    rate: {rate}
  }}
}}
policy {{
  {policy} {{
    {settings}
    max_num_batched_tokens: 64
  }}
}}
system {{
  tensor_parallel: 2
  pipeline_parallel: 1
  memory {{
    rule: {memory}
  }}
}}
metrics {{
  stall_threshold_s: 0.1
}}
""")
    (folder / "summary.json").write_text(json.dumps({
        "offered_rate": rate, "good_rate": 0.5 * rate, "mean_tpot_ms": 20,
        "output_throughput": 100, "saturated": "no", **(summary or {})}))
    for name, text in (("requests.csv", requests), ("steps.csv", steps), ("parts.csv", parts)):
        if text:
            (folder / name).write_text(text)
    if gaps is not None:
        (folder / "vllm_bench.json").write_text(json.dumps({"itls": gaps}))
    return folder


def write_measured(folder, requests="", gaps=None, summary=None):
    """The folder `measured` of `twinserve validate --measured`."""
    folder.mkdir(parents=True)
    (folder / "measured.json").write_text(json.dumps(
        {"name": "run.json", "format": "vLLM bench", "notes": []}))
    (folder / "summary.json").write_text(json.dumps({
        "completed": 2, "mean_tpot_ms": 10, "output_throughput": 50, **(summary or {})}))
    if requests:
        (folder / "requests.csv").write_text(requests)
    if gaps is not None:
        (folder / "vllm_bench.json").write_text(json.dumps({"itls": gaps}))
    return folder


def validation(folder, real_runs):
    """The folder of `twinserve validate` for real runs that lie elsewhere."""
    write_run(folder / "simulated", requests=TWO_TENANTS)
    metrics = {f"mean_{name}_ms": {"measured": 100, "error_percent": 5, "attribution": {"host": 5}}
               for name in ("ttft", "tpot", "e2el")}
    (folder / "validation.json").write_text(json.dumps({
        "name": "small", "metrics": metrics, "real_run_paths": [f"../{run}" for run in real_runs]}))
    return folder


# Two tenants: 10 prompt tokens at 1 s and none else; 30 at 2 s and 5 output tokens until 4 s.
TWO_TENANTS = """tenant,arrival_s,scheduled_s,first_token_s,finished_s,prompt_tokens,output_tokens,\
cached_tokens,ttft_ms,tpot_ms,e2el_ms
0,0,0.5,1,1,10,0,0,1000,,1000
1,0,1.5,2,4,30,5,15,2000,500,4000
"""

# A prefill of 48 tokens, a mixed step, a decode step.
THREE_STEPS = """step,started_s,finished_s,prefill_tokens,decode_tokens,sequences
1,0,1,48,0,1
2,1,2,16,1,2
3,2,3,0,2,2
"""
THREE_PARTS = """step,schedule_ms,build_ms,gemm_ms,attention_ms,communication_ms,other_ms,\
sampling_ms,delivery_ms
1,1,0,30,10,0,2,0,1
2,1,0,20,10,0,2,0,1
3,1,0,5,3,0,2,0,1
"""


def recommendation(folder, lower_is_better=False):
    """vLLM at two budgets, each with two limits of sequences; TGI 3, which has no such limit."""
    rows = [("vllm-0.33.0", 512, 64, 10), ("vllm-0.33.0", 512, 256, 12),
            ("vllm-0.33.0", 2048, 64, 11), ("vllm-0.33.0", 2048, 256, 15),
            ("tgi-3.3.7", 512, None, 6), ("tgi-3.3.7", 2048, None, 8)]
    configurations = []
    for server, budget, limit, value in rows:
        parameters = {"server": server, "token_budget": budget}
        if limit:
            parameters["max_num_seqs"] = limit
        configurations.append({"parameters": parameters,
                               "value": {"mean": value, "low": value - 1, "high": value + 1}})
    path = folder / "systems_small.exhaustive.json"
    path.write_text(json.dumps({"objective": "goodput", "unit": "requests/s",
                                "lower_is_better": lower_is_better,
                                "configurations": configurations}))
    return path


def capacities(folder):
    """The advice for TGI 2 serves 1 request/s, TGI 2 as it starts 2."""
    (folder / "l4").mkdir()
    path = folder / "l4/capacity.json"
    path.write_text(json.dumps({"capacities": [
        {"experiment": f"/x/{kind}.textproto", "by_seed": {"mean": rate, "low": rate - 0.1,
                                                           "high": rate + 0.1}}
        for kind, rate in (("tgi2_advice", 1), ("tgi2_server", 2))]}))
    return path


def series(run):
    """Adds series.csv to a run: a queue, then none."""
    (run / "series.csv").write_text(
        "time_s,waiting,running,kv_used_share,prefill_tokens_per_s,decode_tokens_per_s\n"
        "0,4,2,0.5,1000,10\n1,1,3,0.9,500,20\n2,0,1,0.1,0,30\n")
    return run


def prediction_errors(folder):
    """The tables of checks/fidelity/run: two data sets, two ablations."""
    rows = [f"{name},{part},{metric},{error},0" for name, part, metric, error in (
        ("residency_h100_qwen14b", "judge", "ttft_mean", 1), ("blis16_requests", "judge",
                                                             "ttft_mean", -3),
        ("residency_h100_qwen14b", "fit", "tpot_p90", 2), ("mine", "fit", "kv_blocks", 0.5))]
    (folder / "errors.csv").write_text("\n".join(["data_set,part,metric,error_pct,failed", *rows])
                                       + "\n")
    (folder / "ablations.csv").write_text(
        "ablation,metric,mean_abs_error_pct\ncomplete,ttft_mean,1\ncomplete,e2e_mean,0.5\n"
        "no host term,ttft_mean,4\nno host term,e2e_mean,2\n")
    return folder
