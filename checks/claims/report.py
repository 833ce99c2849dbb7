"""The tables of claims: CSV, Markdown, the README's part, and the comparison with expected/."""
import csv
import math

COLUMNS = ["claim", "quantity", "what", "published", "confidence", "low", "high", "found",
           "verdict", "factor", "open_input", "quick"]
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
TOLERANCE = 2e-3


def number_text(value):
    return "" if value is None else f"{value:.5g}"


def row_of(claim, quantity, found):
    low, high = quantity.band
    text = number_text(found)
    return {"claim": claim.key, "quantity": quantity.key, "what": quantity.what,
            "published": quantity.published, "confidence": quantity.confidence,
            "low": f"{low:g}", "high": f"{high:g}",
            "found": text, "verdict": quantity.verdict(float(text)) if text else "measured",
            "factor": quantity.factor, "open_input": quantity.open_input,
            "quick": str(claim.quick).lower()}


def expected_rows(claims, rows):
    """The rows without the numbers that depend on the machine."""
    measured = {(claim.key, quantity.key) for claim in claims for quantity in claim.quantities
                if not quantity.checked}
    return [{**row, "found": "", "verdict": "measured"}
            if (row["claim"], row["quantity"]) in measured else row for row in rows]


def write_csv(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def band_text(row):
    return f"{row['low']} to {row['high']}"


def verdict_text(row):
    if row["verdict"] in ("below", "above"):
        return f"**{row['verdict']}**" + (f": {row['open_input']}" if row["open_input"] else "")
    return row["verdict"]


def markdown(claims, rows):
    """A part per claim with its setting and a table of quantities, then what is missing."""
    by_claim = {}
    for row in rows:
        by_claim.setdefault(row["claim"], []).append(row)
    inside = sum(row["verdict"] == "inside" for row in rows)
    judged = sum(row["verdict"] in ("inside", "below", "above") for row in rows)
    lines = [f"{inside} of {judged} quantities are inside their bands.", ""]
    for claim in claims:
        if claim.key not in by_claim:
            continue
        lines += [f"### {claim.title}", "", f"{claim.source}. *Rebuilt:* {claim.setting}.", "",
                  "| quantity | published | band | found | factor | verdict |",
                  "|---|--:|--:|--:|---|---|"]
        lines += [f"| {row['what']} | {row['published']} ({row['confidence']}) | "
                  f"{band_text(row)} | "
                  f"{row['found'] or '-'} | {row['factor']} | {verdict_text(row)} |"
                  for row in by_claim[claim.key]]
        lines.append("")
    lines += ["### What waits for another part of twinserve", "", "| claim | source | needs |",
              "|---|---|---|"]
    lines += [f"| {claim.title} | {claim.source} | {claim.needs} |" for claim in claims
              if claim.needs]
    return "\n".join(lines) + "\n"


def with_table(text, table):
    """The README with the table between its markers."""
    head, rest = text.split(BEGIN, 1)
    return f"{head}{BEGIN}\n\n{table}\n{END}{rest.split(END, 1)[1]}"


def differences(rows, expected):
    """A line for each number that is not the expected one."""
    wanted = {(row["claim"], row["quantity"]): row for row in expected}
    for row in rows:
        other = wanted.get((row["claim"], row["quantity"]))
        if other is None:
            yield f"{row['claim']}, {row['quantity']}: is not in expected/"
        elif other["verdict"] != "measured" and not math.isclose(
                float(row["found"]), float(other["found"]), rel_tol=TOLERANCE):
            yield (f"{row['claim']}, {row['quantity']}: {row['found']}, "
                   f"expected {other['found']}")
