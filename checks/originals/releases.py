"""What a release of an original changes against the one whose rules twinserve follows: settings,
and by which of twinserve's rules it decides."""
import re

import differences
import draw

NONE = {"pipeline_parallel_size": 1}  # parameters of recorded cases that no original is run with


def newest(text):
    """The newest release in what `pip index versions` prints; None if there is none."""
    found = re.search(r"^Available versions: ([\w.]+)", text, re.MULTILINE)
    return found[1] if found else None


def order(version):
    """A key that sorts releases: 0.9.2 before 0.10.1."""
    return [int(part) for part in re.findall(r"\d+", version)]


def changed_settings(before, after):
    """Lines of text: what is new, gone or has another default. Both map the name of a class to its
    fields, and these to their defaults as text."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, {}), after.get(name, {})
        for field in sorted(old.keys() | new.keys()):
            place = f"{name}.{field}"
            if field not in old:
                yield f"{place}: new, {new[field]}"
            elif field not in new:
                yield f"{place}: gone, was {old[field]}"
            elif old[field] != new[field]:
                yield f"{place}: {old[field]} -> {new[field]}"


def asked_of(case, fields):
    """A recorded case without its decisions, as a release with the parameters `fields` can decide
    it; None if it cannot."""
    params = dict(case["params"])
    for name, value in NONE.items():
        if params.pop(name, value) != value:
            return None
    if any("cancel" in entry for entry in case["requests"]):
        return None
    if "prefix_cache_retention_interval" not in fields:  # then every block is kept
        params.pop("prefix_cache_retention_interval", None)
    if "num_speculative_tokens" in params and "num_speculative_tokens" not in fields:
        return None
    for name, default in draw.OPTIONAL.items():
        if name in fields:
            continue
        if name == "scheduler_reserve_full_isl":
            params[name] = False
        elif params.pop(name, default) != default:
            return None
    return {**{name: value for name, value in case.items() if name != "steps"}, "params": params}


def smallest(cases):
    """Of the cases that differ the one with the fewest requests, then steps; None of none."""
    return min(cases, key=lambda case: (len(case["requests"]), len(case["steps"])), default=None)


class Matches:
    """How many cases of each kind (recorded, random) a variant of twinserve's rules decides as the
    original did, and the smallest that it does not."""

    def __init__(self, variant):
        self.variant, self.counts, self.smallest, self.shown = variant, {}, None, []

    def add(self, kind, case, ours):
        equal, cases = self.counts.get(kind, (0, 0))
        found = None if isinstance(ours, str) else differences.first_difference(case["steps"], ours)
        same = found is None and not isinstance(ours, str)
        self.counts[kind] = (equal + same, cases + 1)
        if same or smallest([entry for entry in (self.smallest, case) if entry]) is self.smallest:
            return
        self.smallest = case
        self.shown = [f"  twinserve {ours}"] if found is None else [
            f"  original  {differences.notation(found[1])}",
            f"  twinserve {differences.notation(found[2])}"]

    def total(self):
        return sum(equal for equal, _ in self.counts.values())

    def text(self, kind):
        equal, cases = self.counts.get(kind, (0, 0))
        return f"{equal:,} / {cases:,}"


def best(matches):
    """The variant with the most equal cases; the latest of several."""
    return max(reversed(matches), key=Matches.total)


def report(matches, kinds):
    """Lines of text: a variant a line, then the smallest case in which the best one differs."""
    width = max(len(entry.variant) for entry in matches)
    yield f"{'rules':<{width}}" + "".join(f"  {kind:>15}" for kind in kinds)
    for entry in matches:
        yield f"{entry.variant:<{width}}" + "".join(f"  {entry.text(kind):>15}" for kind in kinds)
    found = best(matches)
    yield ""
    if found.smallest is None:
        yield f"all cases are decided by the rules {found.variant}"
        return
    yield f"smallest case that the rules {found.variant} decide otherwise: " \
          f"{found.smallest['case']}, {len(found.smallest['requests'])} requests"
    yield from found.shown


def table(rows, kinds, variants):
    """Markdown: a release a row, a variant of the rules a column, matches of all kinds together.
    `rows` maps a release to its list of Matches."""
    yield "| release | cases (" + " + ".join(kinds) + ") | " + " | ".join(
        f"`{variant}`" for variant in variants) + " |"
    yield "|---|---|" + "---|" * len(variants)
    for release, matches in rows.items():
        cases = [matches[0].counts.get(kind, (0, 0))[1] for kind in kinds]
        most = best(matches).total()
        cells = [f"**{entry.total()}**" if entry.total() == most else str(entry.total())
                 for entry in matches]
        yield f"| {release} | {' + '.join(map(str, cases))} | {' | '.join(cells)} |"
