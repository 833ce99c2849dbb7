"""Seeded strings of many scripts, for comparisons of tokenizers and for training small vocabularies."""
import random

# First and last letters of blocks; unassigned ones between them belong to the test.
SCRIPTS = {
    "latin": (0x61, 0x7A), "latin_upper": (0x41, 0x5A), "latin_1": (0xC0, 0xFF), "latin_extended": (0x100, 0x24F),
    "greek": (0x370, 0x3FF), "cyrillic": (0x400, 0x4FF), "armenian": (0x531, 0x586), "hebrew": (0x5D0, 0x5EA),
    "arabic": (0x620, 0x64A), "syriac": (0x710, 0x74A), "thaana": (0x780, 0x7B1), "devanagari": (0x900, 0x97F),
    "bengali": (0x980, 0x9FE), "gurmukhi": (0xA01, 0xA76), "gujarati": (0xA81, 0xAFF), "tamil": (0xB82, 0xBFA),
    "telugu": (0xC00, 0xC7F), "kannada": (0xC80, 0xCF3), "malayalam": (0xD00, 0xD7F), "sinhala": (0xD81, 0xDF4),
    "thai": (0xE01, 0xE5B), "lao": (0xE81, 0xEDF), "tibetan": (0xF00, 0xFDA), "myanmar": (0x1000, 0x109F),
    "georgian": (0x10A0, 0x10FF), "hangul": (0xAC00, 0xD7A3), "jamo": (0x1100, 0x11FF), "ethiopic": (0x1200, 0x137C),
    "cherokee": (0x13A0, 0x13FD), "khmer": (0x1780, 0x17F9), "mongolian": (0x1800, 0x18AA), "hiragana": (0x3041, 0x3096),
    "katakana": (0x30A0, 0x30FF), "han": (0x4E00, 0x9FFF), "han_b": (0x20000, 0x2A6DF), "yi": (0xA000, 0xA48C),
    "gothic": (0x10330, 0x1034A), "deseret": (0x10400, 0x1044F), "mathematical": (0x1D400, 0x1D7FF),
    "full_width": (0xFF01, 0xFFEE), "presentation_forms": (0xFB1D, 0xFDFF)}
# Assigned by Unicode 15, 15.1 and 16: tables of older libraries lack them.
NEWEST = [(0x897, 0x897), (0xCF3, 0xCF3), (0xECE, 0xECE), (0x1C89, 0x1C8A), (0x2427, 0x2429), (0x2FFC, 0x2FFF),
          (0x31E4, 0x31E5), (0xA7CB, 0xA7CD), (0xA7DA, 0xA7DC), (0x105C0, 0x105F3), (0x10D40, 0x10D8F),
          (0x11380, 0x113E2), (0x11F00, 0x11F59), (0x1171E, 0x1171E), (0x16D40, 0x16D79), (0x1CC00, 0x1CCF9),
          (0x1CD00, 0x1CEB3), (0x1DF25, 0x1DF2A), (0x1E030, 0x1E08F), (0x1E4D0, 0x1E4F9), (0x1E5D0, 0x1E5FF),
          (0x1F6DC, 0x1F6DC), (0x1FAE9, 0x1FAE9), (0x31350, 0x323AF), (0x2EBF0, 0x2EE5D)]
SPACES = [*"      \n\n\r\t\v\f\x1c\x85\xa0", "\r\n", "\n\n\n", "  ", "    ", "\u1680", "\u180e", "\u2003", "\u200b", "\u2028",
          "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff"]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "1️⃣", "❤️", "☃", "🫨", "🧑🏿‍🚀"]
PIECES = ["don't", "I'LL", "it's", "we're", "O'Neil", "'S", "'ſ", "x'ſt", "https://example.org/a_b?q=1&r=%20#f", "__init__",
          "for (int i = 0; i < n; ++i) {\n\treturn a[i];\n}", "def f(x):\n    return x**2  # note", "3.14159", "1,234,567",
          "२०२६", "٣٤", "Ⅷ½²", "a.b@c.de", "C:\\path\\file", "<b>bold</b>", "{\"k\": [1, null]}", "🙂🙃", "ﬁ", "ﷺ", "İstanbul",
          "e\u0301", "\u1100\u1161\u11a8", "\u0958", "q\u0323\u0307", "q\u0307\u0323", "\u212b", "\u0344", "▁", "▁▁", "Ġ", "word",
          "Ünder", "Ünderstand", "Über", "words", "�", "\x00", "\x07", "\ue000", "\U000f0000", "\U0010ffff", "\ufffe"]
TOKENS = ["<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "<s>", "</s>",
          "<unk>", "<mask>", "<end>", "<|assistant|>", "<|end|>", "<0x41>", "<0xE2>", "<｜begin▁of▁sentence｜>", "<|im_", "<s", "\n\n"]


def word(draw, script):
    """A few characters of one script; often the same ones, so that vocabularies learn words."""
    first, last = SCRIPTS[script]
    few = draw.random() < 0.6
    length = draw.randint(1, 9)
    if few:
        seed = random.Random(f"{script} {draw.randint(0, 60)}")
        return "".join(chr(seed.randint(first, last)) for _ in range(length))
    return "".join(chr(draw.randint(first, last)) for _ in range(length))


def any_character(draw):
    """Any code point but surrogates, assigned or not."""
    code = draw.choice((draw.randint(0, 0xFFFF), draw.randint(0x10000, 0x1FFFF), draw.randint(0, 0x10FFFF)))
    return chr(code) if not 0xD800 <= code < 0xE000 else "\ud7ff"


def piece(draw, scripts):
    """One piece of a string: mostly words of its scripts."""
    kind = draw.random()
    if kind < 0.55:
        return word(draw, draw.choice(scripts))
    if kind < 0.65:
        return draw.choice(PIECES)
    if kind < 0.72:
        return str(draw.randint(0, 10 ** draw.randint(1, 12)))
    if kind < 0.78:
        return "".join(draw.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(draw.randint(1, 4)))
    if kind < 0.83:
        return draw.choice(EMOJI)
    if kind < 0.88:
        return draw.choice(TOKENS)
    if kind < 0.93:
        first, last = draw.choice(NEWEST)
        return "".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 3)))
    if kind < 0.96:
        return draw.choice("aeioucαкक") + "".join(chr(draw.randint(0x300, 0x36F)) for _ in range(draw.randint(1, 4)))
    return any_character(draw)


def string(draw):
    """A string of 0 to about 10,000 characters; most are short."""
    target = 0 if draw.random() < 0.01 else int(10 ** draw.uniform(0, 2.3))
    if draw.random() < 0.001:
        target = draw.randint(1000, 10000)
    scripts = draw.sample(sorted(SCRIPTS), draw.randint(1, 3)) + ["latin"]
    parts, length = [], 0
    while length < target:
        part = piece(draw, scripts)
        if draw.random() < 0.75:
            part += draw.choice(SPACES) if draw.random() < 0.3 else " "
        parts.append(part)
        length += len(part)
    return "".join(parts)[:10000]


def strings(count, seed):
    """`count` strings."""
    draw = random.Random(seed)
    return [string(draw) for _ in range(count)]


def corpus(seed, count=12000):
    """Lines for training: what strings are made of, with more words than oddities."""
    draw = random.Random(f"corpus {seed}")
    lines = []
    for _ in range(count):
        scripts = draw.sample(sorted(SCRIPTS), 2) + ["latin", "latin"]
        lines.append(" ".join(piece(draw, scripts) if draw.random() < 0.2 else word(draw, draw.choice(scripts))
                              for _ in range(draw.randint(2, 20))))
    return lines
