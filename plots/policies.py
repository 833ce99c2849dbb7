#!/usr/bin/env python3
"""The policies in the order of figures and tables, with label, colour and marker. As a program,
prints the names of those that an experiment folder compares: policies.py FOLDER."""
import pathlib
import re
import sys
import typing
import zlib

MEASURED = "measured"  # in place of a policy: a run of somebody else's server


class Policy(typing.NamedTuple):
    label: str
    word: str  # in names of LaTeX macros: letters only
    colour: str  # Okabe and Ito's palette, which colour-blind readers can distinguish
    marker: str


POLICIES = {
    "static": Policy("static", "Static", "#666666", "s"),
    "orca": Policy("Orca", "Orca", "#E69F00", "v"),
    "vllm_v0": Policy("vLLM V0", "VllmZero", "#56B4E9", "^"),
    "vllm_v1": Policy("vLLM V1", "VllmOne", "#0072B2", "o"),
    "sarathi": Policy("Sarathi", "Sarathi", "#D55E00", "D"),
    "splitfuse": Policy("SplitFuse", "SplitFuse", "#009E73", "P"),
    "tgi_v2": Policy("TGI 2", "TgiTwo", "#A6761D", "<"),
    "tgi_v3": Policy("TGI 3", "TgiThree", "#CC79A7", ">"),
    "trtllm": Policy("TensorRT-LLM", "TrtLlm", "#000000", "X"),
    "sglang": Policy("SGLang", "Sglang", "#882255", "*"),
    "fastserve": Policy("FastServe", "FastServe", "#44AA99", "p"),
    "distserve": Policy("DistServe", "DistServe", "#332288", "H"),
    "splitwise": Policy("Splitwise", "Splitwise", "#AA4499", "8"),
    "triton": Policy("Triton", "Triton", "#117733", "d"),
    "lightllm": Policy("LightLLM", "LightLlm", "#999933", "h"),
    "ship": Policy("Ship", "Ship", "#DDCC77", "8"),
}
# Policies that are not listed have one of these by their name: the same one in every figure.
OWN_COLOURS = ["#CC6677", "#661100", "#6699CC", "#7570B3", "#BBCC33", "#EE8866", "#FFAABB"]
OWN_MARKERS = ["o", "s", "D", "^", "v", "P", "X", "<", ">"]


def policy_named(name):
    """The style of a policy, or of measured runs. A policy that is not listed gets its colour and
    marker from its name."""
    if name in POLICIES:
        return POLICIES[name]
    word = "".join(filter(str.isalpha, name.title()))
    if name == MEASURED:
        return Policy(name, word, "#000000", "x")
    number = zlib.crc32(name.encode())
    return Policy(name, word, OWN_COLOURS[number % len(OWN_COLOURS)],
                  OWN_MARKERS[number % len(OWN_MARKERS)])


def own_policy_name(text):
    """The name of a policy of one's own in a text such as `own { path: "fair.py" class: "Fair" }`:
    its class, else the name of the file without the `lib` of a library; None without a path."""
    path = re.search(r'path: *"([^"]+)"', text[text.find("own {"):])
    if "own {" not in text or not path:
        return None
    rest = text[text.find("own {") + path.end():]
    named = re.match(r'\s*class: *"([^"]+)"', rest)
    return named.group(1) if named else pathlib.Path(path.group(1)).stem.removeprefix("lib")


def policies_in(folder):
    """The policies that an experiment folder compares: its files, in the order of figures."""
    names = sorted(file.stem for file in folder.glob("[!_]*.textproto"))
    return [*(name for name in POLICIES if name in names),
            *(name for name in names if name not in POLICIES)]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: policies.py FOLDER")
    print(*policies_in(pathlib.Path(sys.argv[1])))
