"""Trains small vocabularies with Hugging Face tokenizers, in the shapes of known model families.

The shapes (normalizer, pre-tokenizer with its patterns, model settings, decoder, post-processor, flags of
added tokens) are those of the families' tokenizer.json; only the vocabularies are small and our own.
"""
import json
import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
          r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
            r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
_LOWER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
_UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = rf"{_LOWER}|{_UPPER}|\p{{N}}{_REST}"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = rf"{_LOWER}{_SHORT}|{_UPPER}{_SHORT}|\p{{N}}{{1,3}}{_REST}"

VOCABULARY = 3000
ALPHABET = 700


def split(pattern, behavior="Isolated"):
    """A pre-tokenizer that cuts by a regular expression."""
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def byte_level(prefix=False, trim=True, regex=True):
    """The ByteLevel part, which is spelled the same as pre-tokenizer, decoder and post-processor."""
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": regex}


def sequence(kind, *parts):
    """A Sequence of pre-tokenizers, decoders and so on."""
    return {"type": "Sequence", kind: list(parts)}


def added(token_id, content, special=True, **flags):
    """An entry of added_tokens."""
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": not special, "special": special, **flags}


def template(before, behind=()):
    """TemplateProcessing with (id, content) before and behind the text."""
    def piece(content):
        return {"SpecialToken": {"id": content, "type_id": 0}}
    single = [*(piece(c) for _, c in before), {"Sequence": {"id": "A", "type_id": 0}}, *(piece(c) for _, c in behind)]
    return {"type": "TemplateProcessing", "single": single, "pair": single,
            "special_tokens": {c: {"id": c, "ids": [i], "tokens": [c]} for i, c in (*before, *behind)}}


def train_byte_level(corpus, pattern):
    """vocab and merges of a byte-level BPE model, trained on words of a pattern."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return json.loads(tokenizer.to_str())["model"]


def train_metaspace(corpus, fallback):
    """A SentencePiece-style BPE model with <unk>, <s>, </s> and, with `fallback`, a token per byte."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    bytes_ = [f"<0x{b:02X}>" for b in range(256)] if fallback else []
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>", *bytes_], limit_alphabet=ALPHABET,
        show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    model["vocab"].setdefault("▁", max(model["vocab"].values()) + 1)
    return {**model, "fuse_unk": True, "byte_fallback": fallback}


def file_of(model, tokens, pre_tokenizer, decoder, normalizer=None, post_processor=None, **settings):
    """A whole tokenizer.json; settings override those of the model."""
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder,
            "model": {**model, **settings}}


def byte_level_families(corpus):
    """tokenizer.json of each byte-level family, by name."""
    patterns = {"gpt2": GPT2, "llama3": LLAMA3, "qwen2": QWEN2, "qwen35": QWEN35, "deepseek": DEEPSEEK[2],
                "tekken": TEKKEN, "o200k": O200K}
    trained = {name: train_byte_level(corpus, pattern) for name, pattern in patterns.items()}
    size = {name: len(model["vocab"]) for name, model in trained.items()}
    plain = byte_level(regex=False)

    def split_family(name, tokens, **more):
        return file_of(trained[name], tokens, sequence("pretokenizers", split(patterns[name]), plain), byte_level(),
                       **more)

    begin = (size["llama3"], "<|begin_of_text|>")
    llama3_tokens = [added(*begin), added(begin[0] + 1, "<|end_of_text|>"), added(begin[0] + 2, "<|eot_id|>")]
    chat = [added(size["qwen2"] + k, c) for k, c in enumerate(("<|endoftext|>", "<|im_start|>", "<|im_end|>"))]
    chat += [added(size["qwen2"] + 3, "<tool_call>", special=False, normalized=False)]
    sentence = (size["deepseek"], "<｜begin▁of▁sentence｜>")
    deepseek_splits = [split(p) for p in DEEPSEEK]
    odd = size["gpt2"]
    odd_tokens = [added(odd, "<mask>", lstrip=True), added(odd + 1, "<end>", rstrip=True),
                  added(odd + 2, "word", special=False, single_word=True), added(odd + 3, "Ünder", special=False),
                  added(odd + 4, "Ünderstand", special=False, lstrip=True, rstrip=True)]
    return {
        "gpt2": file_of(trained["gpt2"], [added(size["gpt2"], "<|endoftext|>")], byte_level(), byte_level(),
                        post_processor=byte_level(trim=True)),
        "llama3": split_family("llama3", llama3_tokens, ignore_merges=True, post_processor=sequence(
            "processors", byte_level(prefix=True, trim=False), template([begin]))),
        "qwen2": split_family("qwen2", chat, normalizer={"type": "NFC"}, post_processor=byte_level(trim=False)),
        "qwen35": split_family("qwen35", [], normalizer={"type": "NFC"}, post_processor=byte_level(trim=False)),
        "deepseek": file_of(trained["deepseek"], [added(*sentence)],
                            sequence("pretokenizers", *deepseek_splits, plain), byte_level(),
                            normalizer=sequence("normalizers"), post_processor=template([sentence])),
        "tekken": split_family("tekken", []),
        "o200k": split_family("o200k", [added(size["o200k"], "<|endoftext|>")]),
        # Not a family: every flag of added tokens, digits, a space in front, all offsets trimmed.
        "odd_bytes": file_of(trained["gpt2"], odd_tokens,
                             sequence("pretokenizers", {"type": "Digits", "individual_digits": False},
                                      byte_level(prefix=True)), byte_level(), normalizer={"type": "NFC"},
                             post_processor=sequence("processors", byte_level(prefix=True), template(
                                 [(odd, "<mask>")], [(odd + 1, "<end>")]))),
    }


def sentence_piece_families(corpus):
    """tokenizer.json of each family with SentencePiece's rules, by name."""
    fallback, unknown = train_metaspace(corpus, True), train_metaspace(corpus, False)
    marks = [added(k, c) for k, c in enumerate(("<unk>", "<s>", "</s>"))]
    to_mark = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    to_space = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    joined = (to_space, {"type": "ByteFallback"}, {"type": "Fuse"})
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    begin = template([(1, "<s>")])
    size = max(fallback["vocab"].values()) + 1
    runs = ("\n\n", "\n\n\n", "▁▁", "▁▁▁", "<b>")
    numbers = iter(range(size, size + len(runs)))
    gemma_tokens = marks + [added(fallback["vocab"][c] if c in fallback["vocab"] else next(numbers), c,
                                  special=False, normalized=False) for c in runs]
    phi = [added(size, "<|assistant|>", rstrip=True), added(size + 1, "<|end|>", rstrip=True)]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    return {
        "llama2": file_of(fallback, marks, None, sequence("decoders", *joined, strip), post_processor=begin,
                          normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, to_mark)),
        "mistral": file_of(fallback, marks, metaspace, sequence("decoders", *joined, strip), post_processor=begin),
        "phi3": file_of(fallback, marks + phi, None, sequence("decoders", *joined, strip),
                        normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, to_mark)),
        "gemma": file_of(fallback, gemma_tokens, {"type": "Split", "pattern": {"String": " "},
                                                  "behavior": "MergedWithPrevious", "invert": False},
                         sequence("decoders", *joined), normalizer=to_mark, post_processor=begin),
        # Not families: unknown characters, fused and single, and the Metaspace decoder.
        "odd_unknown": file_of(unknown, marks, {**metaspace, "prepend_scheme": "always", "split": True},
                               {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}),
        "odd_single_unknown": file_of(unknown, marks + [added(size, "Über", special=False, single_word=True)],
                                      sequence("pretokenizers", {"type": "Digits", "individual_digits": True},
                                               {**metaspace, "prepend_scheme": "never"}),
                                      sequence("decoders", *joined), normalizer={"type": "NFC"}, fuse_unk=False),
    }


def write_families(folder, corpus):
    """Writes FOLDER/NAME.json for every family; returns the paths."""
    paths = []
    for name, content in {**byte_level_families(corpus), **sentence_piece_families(corpus)}.items():
        path = pathlib.Path(folder, f"{name}.json")
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        paths.append(path)
    return paths
