#!/usr/bin/env python3
"""Compares the logits of a model in several formats on the CPU, over text that the model wrote.

Usage: build/venv/bin/python checks/quantisation/logits.py BINARY OUT [--model DIR]

The text is drawn from the model in fp32 at temperature 1. Writes OUT/logits.csv, a row per format:
  distance    relative L2 distance of all logits to those in fp32
  agreement   share of positions at which the most likely token is the same
  divergence  Kullback-Leibler divergence from fp32, nats a token
  perplexity  of the text; by fp32, it is the model's own
With --model: a trained checkpoint in place of the random one, without its 4-bit copies.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "plots")]
from environment import np  # noqa: E402 (their folders come first)
from stored_models import write_model  # noqa: E402

PROMPTS, TOKENS = 4, 255
# Label, folder of the model, --dtype.
FORMATS = (("fp32", "bf16", "fp32"), ("bf16", "bf16", "bf16"), ("int8", "bf16", "int8"),
           ("int4, rounded when loaded", "bf16", "int4"), ("int4, stored as GPTQ", "gptq", "int4"),
           ("int4, stored as AWQ", "awq", "int4"))
COLUMNS = ("format", "distance", "agreement", "divergence", "perplexity")


def generate(binary, model, prompts, answers, *more):
    """The lines that `twinserve generate` writes, by prompt."""
    command = [binary, "generate", "--model", model, "--prompts", prompts, "--out", answers, *more]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"logits: {done.stderr.strip()}")
    with open(answers, encoding="utf-8") as file:
        return {line["prompt"]: line for line in map(json.loads, file)}


def write_text(binary, model, out):
    """Writes OUT/text.ndjson: what the model in fp32 says behind four single tokens."""
    starts, text = out / "starts.ndjson", out / "text.ndjson"
    first = {i: [11 + 97 * i] for i in range(PROMPTS)}
    starts.write_text("".join(json.dumps({"prompt": i, "token_ids": ids}) + "\n"
                              for i, ids in first.items()))
    said = generate(binary, model, starts, out / "said.ndjson", "--dtype", "fp32",
                    "--temperature", "1", "--seed", "1", "--logits", "none",
                    "--max-new-tokens", TOKENS)
    text.write_text("".join(
        json.dumps({"prompt": i, "token_ids": first[i] + said[i]["sampled"]}) + "\n"
        for i in first))
    return [first[i] + said[i]["sampled"] for i in first]


def log_probabilities(binary, model, dtype, out, texts):
    """Logits, and their log-softmax: [positions, vocabulary]."""
    answers = out / "logits.ndjson"
    lines = generate(binary, model, out / "text.ndjson", answers, "--dtype", dtype, "--logits",
                     "all", "--max-new-tokens", 1)
    answers.unlink()
    logits = np.concatenate([np.array(lines[i]["all_logits"], dtype=np.float64)
                             for i in range(len(texts))])
    top = logits.max(axis=1, keepdims=True)
    return logits, logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))


def perplexity(log_shares, texts):
    """Of each text's tokens behind the first."""
    said, begin = [], 0
    for text in texts:
        rows = log_shares[begin:begin + len(text) - 1]
        said.append(rows[np.arange(len(text) - 1), text[1:]])
        begin += len(text)
    return float(np.exp(-np.concatenate(said).mean()))


def row_of(label, reference, found, texts):
    (true_logits, true_shares), (logits, shares) = reference, found
    distance = np.linalg.norm(logits - true_logits) / np.linalg.norm(true_logits)
    agreement = (logits.argmax(axis=1) == true_logits.argmax(axis=1)).mean()
    divergence = (np.exp(true_shares) * (true_shares - shares)).sum(axis=1).mean()
    return {"format": label, "distance": f"{distance:.3g}", "agreement": f"{agreement:.3f}",
            "divergence": f"{divergence:.2g}", "perplexity": f"{perplexity(shares, texts):.4g}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    formats = FORMATS
    if arguments.model:
        formats = [(label, arguments.model, dtype) for label, kind, dtype in FORMATS
                   if kind == "bf16"]
    else:
        for kind in ("bf16", "gptq", "awq"):
            write_model(kind, out / "models" / kind)
        formats = [(label, out / "models" / kind, dtype) for label, kind, dtype in FORMATS]
    texts = write_text(arguments.binary, formats[0][1], out)
    reference, rows = None, []
    for label, model, dtype in formats:
        found = log_probabilities(arguments.binary, model, dtype, out, texts)
        reference = reference or found
        rows.append(row_of(label, reference, found, texts))
    with open(out / "logits.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
