#!/usr/bin/env python3
"""Speed of llama.cpp on one GGUF file, in the form of `twinserve bench --format json`.

Usage: bench_llama_cpp.py FILE --threads N --prefill P --decode D --batch 1,4,16 --context C
                          [--repeats R] [--logits TOKENS.json]

One JSON line per measurement. prefill: one prompt of P tokens in one batch, logits of its last token.
decode: D steps in which every sequence of the batch, C tokens long at first, gets one token more.
--logits: computes the tokens of the file ([id, ...]) and prints the logits behind the last one.
"""
import argparse
import json
import statistics
import sys
import time

import llama_cpp


class Model:
    def __init__(self, path, threads, context, sequences, batch):
        llama_cpp.llama_backend_init()
        silent = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(silent, None)
        self.silent = silent  # kept alive: the library calls it
        parameters = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
        if not self.model:
            sys.exit(f"bench_llama_cpp: {path} cannot be loaded")
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = context * sequences
        options.n_batch = options.n_ubatch = batch
        options.n_seq_max = sequences
        options.n_threads = options.n_threads_batch = threads
        # Sequences then share one cache, without a stretch of it each.
        options.kv_unified = sequences == 1
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        if not self.context:
            sys.exit("bench_llama_cpp: no context of that size")
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(batch, 0, sequences)
        self.drawn = 1

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def truncate(self, sequences, length):
        """Forgets what each sequence has behind its first `length` tokens."""
        memory = llama_cpp.llama_get_memory(self.context)
        for sequence in range(sequences):
            llama_cpp.llama_memory_seq_rm(memory, sequence, length, -1)

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def token(self):
        self.drawn = (self.drawn * 1103515245 + 12345) % 2**31
        return self.drawn % self.vocab

    def compute(self, rows):
        """rows: (token, position, sequence, whether logits are wanted)."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wanted
        status = llama_cpp.llama_decode(self.context, batch)
        if status != 0:
            sys.exit(f"bench_llama_cpp: llama_decode returned {status}")
        llama_cpp.llama_synchronize(self.context)

    def prompt(self, sequence, length):
        self.compute([(self.token(), i, sequence, i == length - 1) for i in range(length)])


def timed(work, threads, repeats):
    """Seconds of each repeat, and the median share of the threads' time that they got a CPU for."""
    rows = []
    for _ in range(repeats + 1):
        cpu, begin = time.process_time(), time.perf_counter()
        work()
        seconds = time.perf_counter() - begin
        rows.append((seconds, (time.process_time() - cpu) / seconds / threads))
    del rows[0]  # warms up
    seconds = [row[0] for row in rows]
    return seconds, statistics.median(row[1] for row in rows)


def line(phase, batch, tokens, seconds, share):
    speeds = sorted(tokens / s for s in seconds)
    median = statistics.median(speeds)
    spread = (speeds[-1 - len(speeds) // 10] - speeds[len(speeds) // 10]) / median
    print(json.dumps({"phase": phase, "batch": batch, "tokens": tokens, "tokens_per_s": median,
                      "repeats": len(seconds), "spread": spread, "cpu_share": share}), flush=True)


def measure(arguments):
    model = Model(arguments.file, arguments.threads, arguments.prefill, 1, arguments.prefill)

    def prefill():
        model.clear()
        model.prompt(0, arguments.prefill)

    seconds, share = timed(prefill, arguments.threads, arguments.repeats)
    line("prefill", 1, arguments.prefill, seconds, share)
    model.close()
    room = arguments.context + arguments.decode + 8
    for batch in arguments.batch:
        model = Model(arguments.file, arguments.threads, room, batch, max(batch, arguments.context))
        for sequence in range(batch):
            model.prompt(sequence, arguments.context)

        def decode():
            model.truncate(batch, arguments.context)
            for step in range(arguments.decode):
                model.compute([(model.token(), arguments.context + step, i, True)
                               for i in range(batch)])

        seconds, share = timed(decode, arguments.threads, arguments.repeats)
        line("decode", batch, batch * arguments.decode, seconds, share)
        model.close()


def logits(arguments):
    with open(arguments.logits, encoding="utf-8") as file:
        tokens = json.load(file)
    model = Model(arguments.file, arguments.threads, len(tokens) + 8, 1, len(tokens))
    last = len(tokens) - 1
    model.compute([(token, i, 0, i == last) for i, token in enumerate(tokens)])
    row = llama_cpp.llama_get_logits_ith(model.context, last)
    print(json.dumps([row[i] for i in range(model.vocab)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=16)
    parser.add_argument("--batch", default=[1, 4, 16],
                        type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--logits")
    arguments = parser.parse_args()
    if arguments.logits:
        logits(arguments)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
