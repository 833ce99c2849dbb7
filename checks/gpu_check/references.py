"""Tiny models against what transformers computes for them in double precision: logits and tokens."""
import array
import json
import math
import struct

from check import Failed, last_line

MODEL_SECONDS = 15


def read_tensors(file):
    """Name -> list of numbers, of a safetensors file of I32 and F32."""
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        code = {"F32": "f", "I32": "i"}.get(entry["dtype"])
        if code:
            tensors[name] = list(array.array(code, data[begin:end]))
    return tensors


def read_expected(folder):
    """Tolerances, and per prompt its tokens, last logits, greedy tokens and their margins."""
    facts = json.loads((folder / "expected.json").read_text())
    tensors = read_tensors(folder / "expected.safetensors")
    prompts = []
    while f"prompt_{len(prompts)}" in tensors:
        i = len(prompts)
        prompts.append({"tokens": tensors[f"prompt_{i}"], "logits": tensors[f"last_logits_{i}"],
                        "greedy": tensors[f"greedy_{i}"],
                        "margins": tensors[f"greedy_margin_{i}"]})
    return facts, prompts


def relative_distance(got, expected):
    """|got - expected| / |expected|; infinite where sizes differ or a number is not finite."""
    if len(got) != len(expected) or not all(math.isfinite(x) for x in got):
        return math.inf
    gap = sum((x - y) ** 2 for x, y in zip(got, expected))
    return math.sqrt(gap / sum(y * y for y in expected))


def first_wrong_token(got, prompt, margin):
    """The first step with another token although the reference is sure of it; -1: none. Behind a
    near tie that fell differently nothing is compared."""
    for i, token in enumerate(prompt["greedy"]):
        if i < len(got) and got[i] == token:
            continue
        return -1 if i < len(got) and prompt["margins"][i] <= margin else i
    return -1


def row(check, folder, wrong="", passed=0, worst="", tolerance="", attention="unknown"):
    """A row of models.csv."""
    return {"model": folder.name, "passed": passed, "attention": attention,
            "overlap": int(check.overlap), "worst_relative_l2": worst, "tolerance": tolerance,
            "wrong": wrong}


def attention_of(done, check, folder):
    """Which choice of attention served: `generate` warns where it is the kernel for any shape. Raises
    Failed where it should not have been."""
    generic = "attention runs on the kernel for any shape" in done.stderr
    expected = check.quick or check.attention == "generic"
    if generic and folder.name.startswith("attention-") and not expected:
        raise Failed("attention was served by the kernel for any shape")
    return "generic" if generic else check.attention


def judge(facts, prompts, results):
    """Distance of the logits, its limit, and the wrong tokens."""
    distances = [relative_distance(result["last_logits"], prompt["logits"])
                 for result, prompt in zip(results, prompts)]
    tolerance = facts["tolerance"]["bf16"]
    wrong = []
    for result, prompt in zip(results, prompts):
        step = first_wrong_token(result["greedy"], prompt, tolerance["margin"])
        if step >= 0:
            wrong.append(f"{result['prompt']}:{step}")
    return max(distances), tolerance["rel_l2"], wrong


def compare(check, folder):
    """A row of models.csv, computed in bf16."""
    facts, prompts = read_expected(folder)
    asked = check.scratch / f"{folder.name}.prompts"
    given = check.scratch / f"{folder.name}.tokens"
    asked.write_text("".join(json.dumps({"prompt": i, "token_ids": prompt["tokens"]}) + "\n"
                             for i, prompt in enumerate(prompts)))
    steps = facts.get("generation", {"block_size": 5, "max_num_batched_tokens": 13,
                                     "max_num_seqs": 3})
    policy = {name: value for name, value in steps.items() if name != "block_size"}
    done = check.call([check.programs["twinserve"], "generate", "--model", folder, "--prompts",
                       asked, "--out", given, "--device", "cuda", "--dtype", "bf16",
                       "--max-new-tokens", max(len(prompt["greedy"]) for prompt in prompts),
                       "--block-size", steps["block_size"], "--policy-params", json.dumps(policy),
                       *check.attention_words()], 60 if check.quick else MODEL_SECONDS)
    if done.returncode != 0:
        raise Failed(f"generate ended with {done.returncode}: {last_line(done.stderr)}")
    attention = attention_of(done, check, folder)
    results = [json.loads(line) for line in given.read_text().splitlines()]
    if len(results) != len(prompts):
        raise Failed(f"generate answered {len(results)} of {len(prompts)} prompts")
    worst, limit, wrong = judge(facts, prompts, results)
    return row(check, folder, "wrong tokens " + " ".join(wrong) if wrong else "",
               int(worst <= limit and not wrong), f"{worst:.3g}", limit, attention)
