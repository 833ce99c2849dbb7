"""Compares the tokenizers of text/ with Hugging Face tokenizers: ids, offsets and decoded text.

Usage: compare_tokenizers.py ENCODE_STRINGS [--strings N] [--seed S] [--keep FOLDER] [TOKENIZER_JSON...]

Without TOKENIZER_JSON, trains small vocabularies in the shapes of the known families. Each encodes N strings
of many scripts (many_scripts.py), decodes their tokens, and decodes N / 10 lists of random ids. Prints one line
per vocabulary; the exit code is 1 if anything differs. ENCODE_STRINGS is the program of encode_strings.cc.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import tokenizers
except ImportError:
    sys.exit("tokenizers is not installed; tools/setup installs it")

import many_scripts
import trained_tokenizers


def expected_of(tokenizer, value):
    """What encode_strings has to answer."""
    ids = value
    result = {}
    if isinstance(value, str):
        encoding = tokenizer.encode(value, add_special_tokens=False)
        ids = encoding.ids
        result = {"ids": ids, "offsets": [list(o) for o in encoding.offsets],
                  "special_ids": tokenizer.encode(value, add_special_tokens=True).ids}
    return {**result, "text": tokenizer.decode(ids), "stream": True,
            "all_text": tokenizer.decode(ids, skip_special_tokens=False)}


def reorders(tokenizer, value):
    """True if NFC changes a string. Offsets within what it changes are ours (docs/tokenizers.md)."""
    normalizer = tokenizer.normalizer
    return (isinstance(value, str) and "NFC" in str(normalizer) and normalizer.normalize_str(value) != value)


def inputs_of(tokenizer, arguments):
    """The strings, and lists of random ids, some of which have no token."""
    draw = random.Random(arguments.seed)
    size = tokenizer.get_vocab_size()
    lists = [[draw.randrange(size + 3) for _ in range(draw.randint(0, 40))] for _ in range(arguments.strings // 10)]
    # Bytes of characters mostly come one after another.
    lists += [[draw.randrange(min(size, 300)) for _ in range(draw.randint(0, 12))]
              for _ in range(arguments.strings // 10)]
    return many_scripts.strings(arguments.strings, arguments.seed) + lists


def compare(path, arguments):
    """Compares one tokenizer.json; returns the number of inputs with a difference."""
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    inputs = inputs_of(tokenizer, arguments)
    answers = subprocess.run([arguments.program, str(path)], check=True, text=True, stdout=subprocess.PIPE,
                             input="".join(json.dumps(value) + "\n" for value in inputs)).stdout.split("\n")
    differences = {}
    tokens = 0
    for value, line in zip(inputs, answers[:-1], strict=True):
        answer, expected = json.loads(line), expected_of(tokenizer, value)
        tokens += len(expected.get("ids", ()))
        if reorders(tokenizer, value):
            expected.pop("offsets", None)
        for field in (f for f in expected if answer.get(f) != expected[f]):
            differences.setdefault(field, []).append((value, answer.get(field), expected[field]))
    print(f"{path.stem}: {arguments.strings} strings, {tokens} tokens, {len(inputs) - arguments.strings} lists of ids:",
          "equal" if not differences else ", ".join(f"{len(d)} with other {f}" for f, d in differences.items()))
    for field, found in differences.items():
        for value, answer, expected in sorted(found, key=lambda d: len(d[0]))[:arguments.show]:
            print(f"  {field} of {value!r}:\n    is       {answer!r}\n    expected {expected!r}")
    sys.stdout.flush()
    return sum(len(found) for found in differences.values())


def main():
    """Reads the arguments and compares."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", help="the program of encode_strings.cc")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="tokenizer.json files; none: trained ones")
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3, help="differences printed per field")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the trained files")
    arguments = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        target = arguments.keep or pathlib.Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        files = arguments.files or trained_tokenizers.write_families(target, many_scripts.corpus(arguments.seed))
        return 1 if sum(compare(path, arguments) for path in files) else 0


if __name__ == "__main__":
    sys.exit(main())
