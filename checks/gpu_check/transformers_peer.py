#!/usr/bin/env python3
"""Speed of Hugging Face transformers on this GPU: decode steps of a model with random weights.

Usage: transformers_peer.py MODEL_FOLDER OUT. Writes OUT, a list of {name, value, unit} or
{name, error}, after every measurement.
"""
import json
import pathlib
import sys
import time

import torch
import transformers

STEPS = 32
results = []
out = pathlib.Path(sys.argv[2])


def record(name, measure):
    entry = {"name": name}
    try:
        entry.update(value=measure(), unit="ms")
    except Exception as error:  # a peer's own limits are a result
        entry["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
    results.append(entry)
    out.write_text(json.dumps(results, indent=1) + "\n")
    torch.cuda.empty_cache()


def seconds_of(model, ids, tokens):
    """Seconds of generate() for exactly `tokens` new tokens."""
    torch.cuda.synchronize()
    begin = time.monotonic()
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens,
                   min_new_tokens=tokens, do_sample=False, pad_token_id=0)
    torch.cuda.synchronize()
    return time.monotonic() - begin


def decode_ms(model, batch, length):
    """Milliseconds of one decode step: the difference of two lengths of answers."""
    ids = torch.randint(model.config.vocab_size, (batch, length), device="cuda")
    seconds_of(model, ids, 2)
    short = min(seconds_of(model, ids, 2) for _ in range(2))
    return 1e3 * (seconds_of(model, ids, 2 + STEPS) - short) / STEPS


def prefill_ms(model, length):
    ids = torch.randint(model.config.vocab_size, (1, length), device="cuda")
    return 1e3 * min(seconds_of(model, ids, 1) for _ in range(4))


def main():
    torch.manual_seed(1)
    config = transformers.AutoConfig.from_pretrained(sys.argv[1])
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    results.append({"name": "transformers", "value": float(transformers.__version__.rsplit(".", 1)[0]),
                    "unit": f"with PyTorch {torch.__version__}"})
    with torch.inference_mode():
        record("prefill 1 x 2048", lambda: prefill_ms(model, 2048))
        for batch, length in ((1, 1024), (32, 1024), (32, 4096), (128, 1024)):
            record(f"decode {batch} x {length}", lambda b=batch, n=length: decode_ms(model, b, n))


if __name__ == "__main__":
    main()
