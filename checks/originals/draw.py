"""Random scheduling cases for an original scheduler and twinserve: seeded, one by its number."""
import random

# Parameters that a case may lack: a release without them is not asked about them.
OPTIONAL = {
    "scheduler_reserve_full_isl": True, "watermark": 0.0, "prefill_schedule_interval": 1,
    "max_num_active_seqs": None, "max_num_scheduled_tokens": None,
    "long_prefill_token_threshold_adaptive": False,
}
FAMILY_STRIDE, OWN_TOKEN = 1000, 500_000


def arrivals(rng, count):
    """Steps of arrival, in order: all at once, in bursts, or spread out."""
    kind = rng.choice(["once", "bursts", "spread", "spread"])
    if kind == "once":
        return [1] * count
    if kind == "bursts":
        return sorted(rng.choice([1, 3, 6, 10, 25]) for _ in range(count))
    return sorted(rng.randint(1, rng.choice([4, 12, 30])) for _ in range(count))


def requests(rng, longest):
    """Requests with a prompt and an output of together at most `longest` tokens."""
    drawn = []
    count = rng.randint(3, 14)
    for index, step in enumerate(arrivals(rng, count)):
        prompt = rng.randint(1, min(24, longest - 1))
        max_new = rng.randint(1, min(14, longest - prompt))
        output = max_new if rng.random() < 0.5 else rng.randint(1, max_new)
        drawn.append({"id": index, "step": step, "prompt": prompt, "output": output,
                      "max_new": max_new})
    return drawn


def add_tokens(rng, drawn, output_tokens=True):
    """Token ids of the prompts: alone, of a family with a common start, or the prompt of an
    earlier request, with some of its output, and more."""
    for entry in drawn:
        kind, tokens = rng.random(), []
        earlier = [other for other in drawn[:entry["id"]] if other["prompt"] < entry["prompt"]]
        if kind < 0.4:
            tokens = [FAMILY_STRIDE * rng.randint(1, 3) + place
                      for place in range(rng.randint(0, entry["prompt"]))]
        elif kind < 0.8 and earlier:
            before = rng.choice(earlier)
            tokens = list(before["tokens"])
            if output_tokens:
                tokens += [1_000_000 * (before["id"] + 1) + j for j in range(before["output"])]
            tokens = tokens[:entry["prompt"]]
        while len(tokens) < entry["prompt"]:
            tokens.append(OWN_TOKEN + 100 * entry["id"] + len(tokens))
        entry["tokens"] = tokens


def speculation(rng, params, drawn):
    """Drafts: their source, their number, and what is offered and accepted, by emitting item."""
    most = rng.randint(1, 5)
    method = rng.choice(["ngram", "eagle", "draft_model"])
    params |= {"num_speculative_tokens": most, "spec_method": method,
               "num_lookahead_tokens": 0 if method == "ngram" else most,
               "draft_slots": 1 if method == "draft_model" else 0}
    for entry in drawn:
        entry["accept"] = [rng.randint(0, most) for _ in range(rng.randint(1, 5))]
        if not params["async_scheduling"]:
            entry["propose"] = [rng.randint(0, most) for _ in range(rng.randint(1, 6))]


def optional_rules(rng, params, fields):
    """Draws the rules that not every release has, each in a part of the cases."""
    drawn = {"scheduler_reserve_full_isl": rng.random() < 0.85}
    if rng.random() < 0.15:
        drawn["watermark"] = rng.choice([0.01, 0.05, 0.1, 0.2, 0.3, 0.4])
    if rng.random() < 0.1:
        drawn["prefill_schedule_interval"] = rng.choice([2, 3, 4, 6])
    if rng.random() < 0.1:
        drawn["max_num_active_seqs"] = rng.randint(1, params["max_num_seqs"])
    # Without chunks, a budget below a prompt would keep it waiting for ever.
    least = params["max_num_seqs" if params["enable_chunked_prefill"] else "max_model_len"]
    if rng.random() < 0.1 and params["max_num_batched_tokens"] > least:
        drawn["max_num_scheduled_tokens"] = rng.randint(least, params["max_num_batched_tokens"])
    if params["long_prefill_token_threshold"] and rng.random() < 0.3:
        drawn["long_prefill_token_threshold_adaptive"] = True
    params |= {name: value for name, value in drawn.items() if name in fields}
    if "scheduler_reserve_full_isl" not in fields:
        params["scheduler_reserve_full_isl"] = False


def vllm_case(rng, name, policy, fields):
    """A case of vLLM V1. `fields`: the parameters that the release has."""
    block_size = rng.choice([1, 2, 4, 4, 8])
    longest = rng.randint(8, 38)
    drawn = requests(rng, longest)
    needed = max(entry["prompt"] + entry["max_new"] for entry in drawn)
    seqs = rng.choice([1, 2, 3, 4, 6, 8])
    chunking = rng.random() < 0.9
    tokens = max(seqs, rng.choice([4, 6, 8, 12, 16, 24]))
    params = {
        "max_num_batched_tokens": tokens if chunking else max(tokens, longest),
        "max_num_seqs": seqs, "max_model_len": longest,
        "policy": "priority" if rng.random() < 0.25 else "fcfs",
        "enable_chunked_prefill": chunking,
        "long_prefill_token_threshold": rng.randint(1, min(8, longest))
        if chunking and rng.random() < 0.25 else 0,
        "enable_prefix_caching": rng.random() < 0.5, "async_scheduling": rng.random() < 0.5,
    }
    optional_rules(rng, params, fields)
    if "num_speculative_tokens" in fields and chunking and rng.random() < 0.2:
        speculation(rng, params, drawn)
        params["enable_prefix_caching"] &= params["spec_method"] == "ngram"
        # A budget below the drafts of one request never gets anywhere.
        for budget in ("max_num_batched_tokens", "max_num_scheduled_tokens"):
            if budget in params:
                params[budget] = max(params[budget], params["num_speculative_tokens"] + 3)
        params["max_num_batched_tokens"] = max(params["max_num_batched_tokens"],
                                               params.get("max_num_scheduled_tokens", 0))
        params["max_model_len"] += 2
        needed += 2 * params["num_speculative_tokens"] + 2
    if params["enable_prefix_caching"]:
        add_tokens(rng, drawn)
    if params["policy"] == "priority":
        for entry in drawn:
            entry["priority"] = rng.randint(0, 3)
    least = -(-needed // block_size)
    blocks = max(2, rng.randint(least, max(least + 1, int(2.5 * least))))
    return {"case": name, "policy": policy, "variant": policy, "grade": "ORIG", "params": params,
            "kv": {"block_size": block_size, "blocks": blocks}, "requests": drawn}


def sglang_requests(rng, page):
    """Requests of up to 24 tokens (4 pages, if that is more) and outputs of up to 24."""
    drawn, most = [], max(24, 4 * page)
    for index, step in enumerate(arrivals(rng, rng.randint(3, 14))):
        max_new = rng.randint(1, rng.choice([4, 12, 24]))
        output = max_new if rng.random() < 0.4 else rng.randint(1, max_new)
        drawn.append({"id": index, "step": step, "prompt": rng.randint(1, most),
                      "output": output, "max_new": max_new})
    return drawn


def sglang_priority(rng, params, drawn):
    params |= {"priority": True, "low_priority_values_first": rng.random() < 0.5,
               "preemption_threshold": rng.choice([0, 1, 2, 10]),
               "preemption": rng.random() < 0.8,
               "retraction_policy": rng.choice(["priority", "length"])}
    for entry in drawn:
        entry["priority"] = rng.randint(0, 4)


def sglang_case(rng, name, policy, fields):
    """A case of SGLang's scheduler; every release has all parameters."""
    page = rng.choice([1, 1, 1, 1, 4, 8, 16])
    drawn = sglang_requests(rng, page)
    # A page more than its own is kept free for each request.
    needed = max(entry["prompt"] + entry["max_new"] for entry in drawn) + 2 * page + 2
    least = -(-needed // page) + 1
    chunked = rng.random() < 0.5
    params = {
        "schedule_policy": rng.choice(["fcfs", "fcfs", "lpm", "lof"]),
        "radix_cache": rng.random() < 0.6,
        "chunked_prefill_size": page * rng.randint(max(1, 2 // page), 16 // min(page, 4))
        if chunked else None,
        "max_prefill_tokens": rng.choice([16384, 16384, page * rng.randint(9, 64)]),
        "max_running_requests": rng.randint(2, 9),
        "enable_mixed_chunk": chunked and rng.random() < 0.4,
        "schedule_conservativeness": rng.choice([0.01, 0.05, 0.1, 0.2, 0.3, 1.0, 1.3]),
        "init_new_token_ratio": 0.7, "min_new_token_ratio_factor": 0.14,
        "new_token_ratio_decay_steps": rng.choice([600, 30, 10]),
        "retract_decode_steps": rng.choice([20, 3, 1]),
        "clip_max_new_tokens": rng.choice([4096, 4096, 4096, rng.randint(2, 10)]),
        "overlap": rng.random() < 0.4}
    if rng.random() < 0.15:
        params["prefill_max_requests"] = rng.randint(1, 3)
    if params["radix_cache"]:
        add_tokens(rng, drawn)
        if params["schedule_policy"] == "lpm":
            params["in_batch_check_threshold"] = rng.choice([-1, 2, 4, 8, 32])
            params["in_batch_deprioritize_threshold"] = rng.choice([2, 4, 8, 32])
    if rng.random() < 0.2:
        sglang_priority(rng, params, drawn)
    if rng.random() < 0.15:
        for entry in drawn:
            entry["ignore_eos"] = rng.random() < 0.7
            if entry["ignore_eos"]:
                entry["output"] = entry["max_new"]
    blocks = rng.randint(least, max(least + 2, int(2.5 * least)))
    return {"case": name, "policy": policy, "variant": policy, "grade": "ORIG", "params": params,
            "kv": {"block_size": page, "blocks": blocks}, "requests": drawn}


def draw(system, name, seed, number, fields):
    """Case `number` of a seed: always the same one for a system, whatever else is drawn."""
    rng = random.Random(f"{seed}/{system.name}/{number}")
    return system.draw(rng, name, system.policy, fields)
