"""Writes the small vocabularies and expected encodings of tests/unit/text/samples with Hugging Face tokenizers.

Usage: make_samples.py FOLDER. For each family it writes NAME.json, a tokenizer.json, and NAME.expected.json: a list of
{"string", "ids", "special_ids", "offsets", "text", "nfc"}, made by the version of tokenizers in tools/requirements.txt.
"""
import json
import pathlib
import random
import sys
import tempfile

import tokenizers

import compare_tokenizers
import many_scripts
import trained_tokenizers

FAMILIES = ("gpt2", "llama3", "qwen2", "deepseek", "o200k", "llama2", "mistral", "gemma", "odd_bytes", "odd_unknown")
STRINGS = ["", " ", "  ", "\n", "Hello world", " Hello  world ", "don't I'LL it's", "x = 1234567;\n\n\tif (a) {}\r\n",
           "naïve café e\u0301 \u0958", "日本語のテキスト、漢字とカナ。", "Привет, мир! Ünder words word", "안녕하세요 नमस्ते สวัสดี",
           "👨‍👩‍👧‍👦 🇩🇪 1️⃣", "\u180e\u2003\u3000\x85", "\U00010d4a\U0001e030\u1c89 \U000105c0", "\x00\ufffd\ue000", "▁a ▁▁b",
           "<|im_start|>user\nhi<|im_end|>", "<s>a</s> <mask> b <end> c", "<|begin_of_text|>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]


def main(folder):
    """Trains, encodes, writes."""
    trained_tokenizers.VOCABULARY = 420
    trained_tokenizers.ALPHABET = 60
    draw = random.Random(5)
    strings = STRINGS + [s for s in (many_scripts.string(draw) for _ in range(200)) if len(s) < 60][:20]
    with tempfile.TemporaryDirectory() as trained:
        trained_tokenizers.write_families(trained, many_scripts.corpus(5, count=3000))
        for name in FAMILIES:
            text = pathlib.Path(trained, f"{name}.json").read_text(encoding="utf-8")
            pathlib.Path(folder, f"{name}.json").write_text(text + "\n", encoding="utf-8")
            tokenizer = tokenizers.Tokenizer.from_str(text)
            rows = []
            for string in strings:
                encoding = tokenizer.encode(string, add_special_tokens=False)
                rows.append(json.dumps({
                    "string": string, "ids": encoding.ids, "offsets": encoding.offsets,
                    "special_ids": tokenizer.encode(string).ids, "text": tokenizer.decode(encoding.ids),
                    "nfc": not compare_tokenizers.reorders(tokenizer, string)},
                    separators=(",", ":")))
            pathlib.Path(folder, f"{name}.expected.json").write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
