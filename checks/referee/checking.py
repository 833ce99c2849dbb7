"""Compares expected/ and README.md with what can be computed from a clone, and with more data."""
import sys

import imported
import recordings
import report
import simulators
import tables
from prediction import METRICS, NotCovered, NotInstalled

SHOWN = 5e-4  # of a prediction: half of the decimal that tables show


def differing_files(raw):
    """Files that are not what the raw tables of expected/ give."""
    return [path for path, content in report.files(raw).items()
            if not path.is_file() or path.read_text(encoding="utf-8") != content]


def cells_by_run(raw, name):
    """{(data set, run): {metric: predicted ms}} of a simulator."""
    found = {}
    for cell in raw["cells"]:
        if cell["simulator"] == name:
            place = found.setdefault((cell["data_set"], cell["run"]), {})
            place[cell["metric"]] = float(cell["predicted_ms"])
    return found


def check_errors(raw, runs):
    """Lines on cells whose error is not the one of their recorded run."""
    wrong = []
    for cell in raw["cells"]:
        run = runs.get(f"{cell['data_set']}/{cell['run']}")
        if run is None:
            continue
        recorded = recordings.recorded_ms(run, cell["whole_run"] == "1")[cell["metric"]]
        error = 100 * (float(cell["predicted_ms"]) / recorded - 1)
        if abs(error - float(cell["error_pct"])) > 0.006:  # two decimals, six digits
            wrong.append(f"cells.csv: {cell['simulator']} {cell['data_set']}/{cell['run']} "
                         f"{cell['metric']}: error {cell['error_pct']}, from the recording "
                         f"{error:.2f}")
    return wrong


def differs(one, other):
    """Whether predictions differ by more than the tables show."""
    return one.keys() != other.keys() or any(abs(one[m] / other[m] - 1) > SHOWN for m in one)


def check_predictions(raw, module, name, runs):
    """Lines on runs that a simulator now predicts otherwise."""
    wrong, expected = [], cells_by_run(raw, name)
    for run in runs.values():
        try:
            found = module.predict(recordings.blind(run))
            said = {metric: found.value(metric) for metric in METRICS}
        except NotCovered:
            said = {}
        if differs(said, expected.get((run.data_set, run.name), {})):
            wrong.append(f"cells.csv: {name} {run.full_name}: predicts {said or 'nothing'} now; "
                         "--import DIR --update writes the new ones")
    return wrong


def check_imported(raw):
    """Lines on imported predictions that the cells do not have."""
    wrong, expected = [], {}
    for (name, data_set, run), row in imported.rows().items():
        cells = expected.setdefault(name, cells_by_run(raw, name)).get((data_set, run), {})
        if differs({metric: float(row[f"{metric}_ms"]) for metric in METRICS}, cells):
            wrong.append(f"cells.csv: {name} {data_set}/{run}: imported/predictions.csv says "
                         "otherwise")
    return wrong


def skipped(raw, runs):
    """Runs with cells whose recording is not at hand."""
    return {f"{cell['data_set']}/{cell['run']}" for cell in raw["cells"]} - runs.keys()


def check(options):
    raw = report.expected_raw()
    if not raw["cells"]:
        print("referee: expected/cells.csv is missing; checks/referee/run --update writes it",
              file=sys.stderr)
        return 1
    own = recordings.read_compact([recordings.IN_REPOSITORY])
    runs = recordings.read_compact([recordings.IN_REPOSITORY, options.out / "recorded"])
    wrong = [f"{path.relative_to(report.HERE)} is stale; --update writes it"
             for path in differing_files(raw)] + check_errors(raw, runs) + check_imported(raw)
    repeated = []
    for name, module in simulators.load(options.simulators, options.simulator).items():
        try:
            wrong += check_predictions(raw, module, name, own)
            repeated.append(name)
        except NotInstalled as missing:
            print(f"referee: {name}: predictions not repeated, it is not installed: {missing}",
                  file=sys.stderr)
    left = skipped(raw, runs)
    if left:
        print(f"referee: skipped: errors of {len(left)} runs, whose recordings are not in the "
              "repository; --import DIR brings them", file=sys.stderr)
    print("\n".join(f"referee: {line}" for line in wrong)
          or f"referee: {len(raw['cells'])} cells in order; predictions of {len(own)} run repeated "
             f"with {', '.join(repeated)}")
    return 1 if wrong else 0
