"""twinserve.recommend against the command line."""
import json
import re
import shlex

import pytest
import twinserve

REQUEST = """
model { name: "llama-3-8b" }
hardware { name: "h100-sxm" }
workload {
  arrivals { kind: poisson rate: 10 }
  shape { prompt { kind: fixed value: 100 } output { kind: fixed value: 10 } }
}
until: "mean_ttft_ms<=500"
settings {
  server: "vllm-0.33.0" token_budget: [256, 512] max_num_seqs: 8
  gpu_memory_utilization: 0.9 weight_dtype: "bf16"
}
requests: 200 replications: 3
set: ["cost.linear.base_s=0.005", "system.memory.blocks_override=600"]
"""


def test_a_recommendation_is_the_answer_of_the_command_line(tmp_path, command_line):
    path = tmp_path / "request.textproto"
    path.write_text(REQUEST)
    found = twinserve.recommend(path, out=tmp_path / "answer")
    printed = json.loads(command_line("recommend", path, "--format", "json").stdout)
    assert found.document == printed
    assert json.loads((tmp_path / "answer/recommendation.json").read_text()) == printed
    assert list(found.configurations["rank"]) == [1, 2]
    assert found.command.startswith("vllm serve llama-3-8b ")
    assert found.configurations.loc[0, "value.low"] <= found.configurations.loc[0, "value.mean"]
    assert "token_budget" in set(found.sensitivity["path"])
    assert found.rejected.empty


def parts_of_a_server(resolved):
    """Policy, system and cost model of a resolved experiment. The router stands before servers."""
    text = re.sub(r" *#.*", "", resolved)
    parts = [re.search(rf"^{part} {{\n.*?^}}$", text, re.MULTILINE | re.DOTALL)[0] for part in ["policy", "system", "cost"]]
    return re.sub(r"  router {.*?^  }\n", "", "\n".join(parts), flags=re.MULTILINE | re.DOTALL)


def test_the_launch_line_describes_the_server_that_was_simulated(tmp_path, command_line):
    command_line("recommend", "--model", "Qwen/Qwen3-32B", "--hardware", "h200", "--devices", 1, "--rate", 3,
                 "--input-len", 1024, "--output-len", 16, "--until", "p99_ttft_ms<=2000", "--deploy", tmp_path / "d")
    launch = (tmp_path / "d/server.sh").read_text().splitlines()[-1]
    program, verb, model, *flags = shlex.split(launch.removeprefix("exec ").replace("${PORT:-8000}", "8000"))
    assert (program, verb) == ("vllm", "serve")
    started = command_line("resolve", "--model", model, "--hardware", "h200", "--server", "vLLM 0.33.0",
                           "--rate", 3, *flags).stdout
    predicted = (tmp_path / "d/prediction.textproto").read_text()
    assert "max_num_batched_tokens" in parts_of_a_server(predicted)
    assert parts_of_a_server(started) == parts_of_a_server(predicted)


def test_bad_requests_are_refused():
    with pytest.raises(twinserve.InputError, match="until"):
        twinserve.recommend(REQUEST.replace('until: "mean_ttft_ms<=500"', ""))
    with pytest.raises(twinserve.InputError, match="jobs"):
        twinserve.recommend(REQUEST, jobs=0)
