"""Renders templates by jinja2 and by render_templates, and compares byte for byte.

Usage: compare_with_jinja.py RENDER_TEMPLATES TEMPLATE_FOLDER [--speed]

Every *.jinja file of the folder is rendered with every conversation of message_sets.py. Equal means:
the same text, or a failure on both sides, with the same message where the template raised it.
Prints each difference and each refused template; exits with 1 if there is a difference."""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import time

import hugging_face
import jinja2
import message_sets


MOST_SHOWN = 40  # differences


class Renderer:
    """render_templates as a process."""

    def __init__(self, program):
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request):
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"render_templates ended with {self._process.wait()} on {request}")
        return json.loads(answer)

    def close(self):
        self._process.stdin.close()
        return self._process.wait()


def reference(template, variables):
    """{"text"}, or {"error"} with the message if the template raised it."""
    try:
        return {"text": template.render(**variables)}
    except hugging_face.RaisedByTemplate as error:
        return {"error": str(error)}
    except Exception:  # Whatever Python raises when a template does what it cannot.
        return {"error": None}


def is_equal(expected, found):
    if "text" in expected:
        return found.get("text") == expected["text"]
    return "error" in found and expected["error"] in (None, found["error"])


def excerpt(answer, other):
    """An answer from shortly before the first character in which two texts differ."""
    text, against = str(answer.get("text", "")), str(other.get("text", ""))
    same = next((i for i, (a, b) in enumerate(zip(text, against)) if a != b), min(len(text), len(against)))
    return f"...{text[max(0, same - 20):same + 80]!r}" if "text" in answer else answer


def compare(renderer, name, source, kinds):
    """(number of equal, differences, reason of refusal). Counts the kinds of jinja2's answers."""
    try:
        template = hugging_face.environment().from_string(source)
    except jinja2.TemplateError as error:
        template = None
        expected_refusal = str(error)
    refused = renderer.ask({"template": source}).get("refused")
    if template is None:
        return (1, [], None) if refused else (0, [f"{name}: jinja2 refuses it: {expected_refusal}"], None)
    if refused:
        return 0, [], refused
    equal, differences = 0, []
    for case, variables in message_sets.all_variables():
        expected = reference(template, variables)
        found = renderer.ask({"variables": variables})
        if is_equal(expected, found):
            equal += 1
            kinds["texts" if "text" in expected else "raised" if expected["error"] else "failures"] += 1
        else:
            differences.append(f"{name}, {case}:\n  jinja2: {excerpt(expected, found)}\n"
                               f"  ours:   {excerpt(found, expected)}")
    return equal, differences, None


def speed_ratio(renderer, source, variables, repeat=200):
    """How many times faster than jinja2, whose template is compiled before."""
    template = hugging_face.environment().from_string(source)
    if "text" not in reference(template, variables):
        return None
    renderer.ask({"template": source})
    start = time.perf_counter()
    for _ in range(repeat):
        template.render(**variables)
    taken = time.perf_counter() - start
    return taken / renderer.ask({"variables": variables, "repeat": repeat})["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--speed", action="store_true", help="also print ratios of rendering times")
    arguments = parser.parse_args()
    renderer = Renderer(arguments.program)
    equal, differences, refusals, ratios = 0, [], {}, []
    kinds = collections.Counter()
    files = sorted(arguments.folder.glob("*.jinja"))
    for path in files:
        with path.open(encoding="utf-8", newline="") as file:
            source = file.read()
        count, different, refused = compare(renderer, path.name, source, kinds)
        equal += count
        differences += different
        if refused:
            refusals[path.name] = refused
        elif arguments.speed:
            variables = dict(message_sets.all_variables())["system_turns+prompt"]
            ratio = speed_ratio(renderer, source, variables)
            if ratio:
                ratios.append((ratio, path.name))
    for text in differences[:MOST_SHOWN]:
        print(text)
    for name, reason in refusals.items():
        print(f"refused: {name}: {reason}")
    for ratio, name in sorted(ratios):
        print(f"speed: {ratio:5.1f} times jinja2: {name}")
    print(f"{len(files)} templates, {len(list(message_sets.all_variables()))} message sets: "
          f"{equal} of {equal + len(differences)} equal ({kinds['texts']} texts, {kinds['raised']} messages of "
          f"raise_exception, {kinds['failures']} other failures), {len(refusals)} templates refused")
    return 1 if differences or not files or renderer.close() != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
