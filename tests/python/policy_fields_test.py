"""docs/python.md lists the fields that a policy can read as their docstrings describe them.
TWIN_UPDATE_SNAPSHOTS=1 writes them there."""
import os
import pathlib
import re

import twinserve

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/python.md"
BEGIN = ("<!-- Generated from the docstrings of apps/python/policy_binding.cc by "
         "tests/python/policy_fields_test.py. Do not edit. -->\n")
END = "<!-- End of the generated part. -->\n"
FIELD = re.compile(r"(?:.*\n\n)?(?P<meaning>.+)\nC\+\+: (?P<cpp>.+)\nServer: (?P<server>.+)", re.DOTALL)


def fields_of(kind):
    """Name and docstring of what can be read, in the order of its definition."""
    for name, value in vars(kind).items():
        doc = value.__doc__ or ""
        if not name.startswith("_") and "\nServer: " in doc:
            yield name, FIELD.fullmatch(doc)


def name_of(kind, name):
    if isinstance(vars(kind)[name], property):
        return name
    arguments = re.search(r"\(self(?:, (\w+))?", vars(kind)[name].__doc__).group(1)
    return f"{name}({arguments})"


def table(kind, title):
    rows = [f"| {title} | meaning | does a real server know it | in C++ |", "|---|---|---|---|"]
    rows += [f"| `{name_of(kind, name)}` | {found['meaning']} | {found['server']} | "
             f"`{found['cpp'].split('::', 1)[-1]}` |" for name, found in fields_of(kind)]
    return "\n".join(rows) + "\n"


def generated():
    return (f"\n{table(twinserve.Request, 'of a request')}\n"
            f"{table(twinserve.Step, 'of a step')}\n")


def test_the_page_has_the_fields_as_their_docstrings_describe_them():
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    written, after = rest.split(END)
    if os.environ.get("TWIN_UPDATE_SNAPSHOTS"):
        PAGE.write_text(before + BEGIN + generated() + END + after, encoding="utf-8")
        return
    assert written == generated(), "stale; run this test with TWIN_UPDATE_SNAPSHOTS=1"


def test_every_field_of_a_request_and_of_a_step_says_whether_a_server_knows_it():
    for kind in (twinserve.Request, twinserve.Step):
        properties = {name for name, value in vars(kind).items()
                      if isinstance(value, property) and not name.startswith("_")}
        assert properties <= {name for name, _ in fields_of(kind)}
    assert len(list(fields_of(twinserve.Request))) == 17
    assert {"blocks_for", "lookup_prefix"} <= {name for name, _ in fields_of(twinserve.Step)}
