"""Prints the comparison, and writes it to expected/ and README.md."""
import pathlib
import re

import tables

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected"
README = HERE / "README.md"
ABLATIONS = HERE.parent / "fidelity/expected/ablations.csv"
COLUMNS = {"cells": tables.CELL, "costs": tables.COST, "not_covered": tables.REASON}


def sections(raw):
    """{name of a place in README.md: Markdown}."""
    derived = tables.derived_tables(raw)
    return {"table": tables.error_markdown(derived["table"], raw["costs"]),
            "pairs": tables.pair_markdown(derived["pairs"]),
            "worst": tables.worst_markdown(derived["worst"]),
            "parts": tables.parts_markdown(tables.read_csv(ABLATIONS)),
            "not covered": tables.reasons_markdown(raw["not_covered"])}


def text(raw):
    found = sections(raw)
    heads = {"table": "Mean absolute error ± its 95 % interval (mean error), in %:",
             "pairs": "twinserve and another simulator on their common runs:",
             "worst": "twinserve's largest errors:", "not covered": "Not covered:"}
    return "\n".join(f"{head}\n\n{found[name]}" for name, head in heads.items()
                     if found[name].count("\n") > 2)


def files(raw):
    """{path: text} of all that --update writes."""
    written = {EXPECTED / f"{name}.csv": tables.csv_text(raw[name], columns)
               for name, columns in COLUMNS.items()}
    written |= {EXPECTED / f"{name}.csv": tables.csv_text(rows)
                for name, rows in tables.derived_tables(raw).items() if rows}
    readme = README.read_text(encoding="utf-8")
    for name, markdown in sections(raw).items():
        readme = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)",
                        lambda match: match[1] + markdown + match[2], readme, flags=re.DOTALL)
    return written | {README: readme}


def expected_raw():
    """The raw tables of expected/; empty where a file is missing."""
    return {name: tables.read_csv(path) if (path := EXPECTED / f"{name}.csv").is_file() else []
            for name in COLUMNS}


def merged(raw, names, sets):
    """Expected rows with those of the chosen simulators and data sets replaced."""
    old = expected_raw()
    order = lambda row: (row["simulator"] != tables.OURS, row["simulator"], row["data_set"],
                         row["run"])
    return {name: sorted([row for row in old[name] if not (row["simulator"] in names
                                                           and row["data_set"] in sets)]
                         + [row for row in rows if row["simulator"] in names], key=order)
            for name, rows in raw.items()}


def update(raw, names, sets):
    for path, content in files(merged(raw, names, sets)).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
