"""The first difference of each kind between what an original decided and what twinserve decided."""
import re

# Fields of a step, in the order in which a difference is looked for.
FIELDS = ["it", "preempted", "rejected", "work", "hits", "drafts", "ratio", "free", "cached",
          "returned", "verified", "emitted", "finished", "free_after", "cached_after"]
LISTS = {"preempted", "rejected", "hits", "drafts", "verified", "emitted", "finished", "work"}


def notation(step):
    """A step in the notation of tests/golden/README.md: it3: 0:D1 1:P7 | pre=[2] | free=4 | fin=[0]."""
    if step is None:
        return "nothing more"
    short = {"preempted": "pre", "finished": "fin", "free_after": "freeA"}
    text = f"it{step['it']}:" + "".join(f" {i}:{phase}{n}" for i, phase, n in step["work"])
    for field in FIELDS:
        value = step.get(field)
        if field in ("it", "work") or value is None or value == []:
            continue
        inside = ",".join(str(entry).replace(" ", "") for entry in value) \
            if isinstance(value, list) else None
        text += f" | {short.get(field, field)}={value if inside is None else f'[{inside}]'}"
    return text


def work_kind(theirs, ours):
    """What differs between two lists of work, in words."""
    a, b = {item[0]: item for item in theirs}, {item[0]: item for item in ours}
    if a.keys() - b.keys():
        return "work: twinserve leaves a request out"
    if b.keys() - a.keys():
        return "work: twinserve schedules one request more"
    if any(a[i][2] != b[i][2] for i in a):
        return "work: another number of tokens"
    if any(a[i][1] != b[i][1] for i in a):
        return "work: another phase"
    return "work: another order"


def first_difference(theirs, ours):
    """(kind, step of the original, step of twinserve) of the first step that is unequal; None if
    all are equal. A field that the original's steps lack is not compared."""
    for place in range(max(len(theirs), len(ours))):
        if place >= len(ours):
            return "steps: the original goes on", theirs[place], None
        if place >= len(theirs):
            return "steps: twinserve goes on", None, ours[place]
        a, b = theirs[place], ours[place]
        for field in FIELDS:
            absent = [] if field in LISTS else None
            value = b.get(field, absent)
            if (field in a or field == "rejected") and a.get(field, absent) != value:
                kind = work_kind(a["work"], b["work"]) if field == "work" else field
                return kind, a, b
    return None


def sharing(case):
    """The features that a case uses, for the summary of a kind."""
    params, names = case["params"], []
    for name, value in params.items():
        if name in ("max_num_batched_tokens", "max_num_seqs", "max_model_len"):
            continue
        if value is True and name not in ("enable_chunked_prefill", "scheduler_reserve_full_isl"):
            names.append(name)
        elif isinstance(value, str) and value not in ("fcfs",):
            names.append(f"{name}={value}")
    if params.get("enable_chunked_prefill") is False:
        names.append("no chunking")
    return names


class Differences:
    """Collects the differences of many cases by kind."""

    def __init__(self):
        self.cases, self.equal, self.kinds = 0, 0, {}

    def add(self, case, ours):
        """A case with the original's steps, and the steps of twinserve or the text of its error."""
        self.cases += 1
        if "error" in case:
            return self.note(f"error of the original: {case['error']}", case, None, None)
        if isinstance(ours, str):  # one kind, whatever the numbers in it
            return self.note(f"error of twinserve: {re.sub(r'[0-9]+', 'N', ours)}", case, None, None)
        found = first_difference(case["steps"], ours)
        if found is None:
            self.equal += 1
        else:
            self.note(found[0], case, found[1], found[2])
        return None

    def note(self, kind, case, theirs, ours):
        entry = self.kinds.setdefault(kind, {"count": 0, "features": {}, "size": None})
        entry["count"] += 1
        for name in sharing(case):
            entry["features"][name] = entry["features"].get(name, 0) + 1
        # The smallest case shows a difference best.
        size = (len(case["requests"]), len(case.get("steps", ())))
        if entry["size"] is None or size < entry["size"]:
            entry.update(size=size, case=case, theirs=theirs, ours=ours)

    def report(self, theirs="original", ours="twinserve"):
        """Lines of text: the totals, then each kind with its smallest case."""
        yield f"{self.cases} cases, {self.equal} equal, {self.cases - self.equal} differ"
        ordered = sorted(self.kinds.items(), key=lambda entry: -entry[1]["count"])
        for kind, entry in ordered:
            shared = [name for name, count in entry["features"].items()
                      if count == entry["count"]]
            yield ""
            yield f"{kind}: {entry['count']} cases" + \
                (f", all with {', '.join(shared)}" if shared else "")
            yield f"  smallest  {entry['case']['case']}, {len(entry['case']['requests'])} requests"
            if entry["theirs"] is not None or entry["ours"] is not None:
                yield f"  {theirs:<9} {notation(entry['theirs'])}"
                yield f"  {ours:<9} {notation(entry['ours'])}"
