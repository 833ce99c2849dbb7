#!/usr/bin/env python3
"""Checks checks/referee: simulators found by their file, kept predictions, errors and tables.

Usage: tests/experiments/referee_test.py SOURCE_DIR
"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
REFEREE = SOURCE / "checks/referee"
sys.path.insert(0, str(REFEREE))
sys.dont_write_bytecode = True
import predicting  # noqa: E402 (its folder comes first)
import recordings  # noqa: E402
import report  # noqa: E402
import simulators  # noqa: E402
import tables  # noqa: E402
import workload  # noqa: E402
from recorded_runs import DataError, RecordedRun, Request  # noqa: E402

HALF = '''"""Half of what an oracle would say. Command: none."""
import pathlib
from prediction import NotCovered, Prediction
CALLS = pathlib.Path(__file__).with_suffix(".calls")

def predict(run):
    if any(request.ttft or request.e2e for request in run.requests):
        raise RuntimeError("the recorded latencies are visible")
    if run.saturated:
        raise NotCovered("saturated runs have no steady state")
    CALLS.write_text(CALLS.read_text() + "x" if CALLS.exists() else "x")
    return Prediction(50.0, 5.0, 100.0, intervals={"ttft": (40.0, 60.0), "e2e": (90.0, 210.0)},
                      fitted=("tpot",))
'''

SLOW = '''"""Sleeps over run b until there is a file `awake` beside it. Command: none."""
import pathlib
import time
from prediction import Prediction
AWAKE = pathlib.Path(__file__).with_name("awake")

def predict(run):
    while run.name == "b" and not AWAKE.exists():
        time.sleep(0.01)
    return Prediction(100.0, 10.0, 200.0)
'''


def run_of(name, saturated=False, failed=False):
    """Two requests with TTFT 100 ms, TPOT 10 ms and E2E 200 ms."""
    requests = [Request(0.0, 20, 11, 0.1, 0.2, (7, 9)), Request(1.0, 30, 11, 0.1, 0.2, (7,))]
    if failed:
        requests[1].e2e = requests[1].ttft = None
    return RecordedRun("made_up", name, "vllm-0.15.1", "m", "g", requests, "max_num_seqs: 4", 7,
                       saturated=saturated)


def cell(simulator, run, metric, error, part="judge", inside=""):
    return {"simulator": simulator, "data_set": "s", "run": run, "metric": metric, "part": part,
            "predicted_ms": "1", "error_pct": str(error), "low_ms": "", "high_ms": "",
            "inside": inside}


class RefereeTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.simulators = self.folder / "simulators"
        self.simulators.mkdir()
        (self.simulators / "half.py").write_text(HALF)

    def write_run(self, run):
        path = recordings.place_of(self.folder / "out/recorded", run)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(recordings.packed(run))

    def call(self, *options):
        return subprocess.run([sys.executable, str(REFEREE / "run"), "--simulators",
                               str(self.simulators), "--out", str(self.folder / "out"), *options],
                              capture_output=True, text=True)

    def test_a_simulator_is_one_file(self):
        self.write_run(run_of("calm"))
        self.write_run(run_of("busy", saturated=True))
        done = self.call("--runs", "made_up", "--repetitions", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| half | made_up | judged | 50.0 (-50.0), n 1 | - | 50.0 (-50.0), n 1 | "
                      "0/1, 1/1 |", done.stdout)
        self.assertIn("| half | made_up | fitted | - | 50.0 (-50.0), n 1 | - |", done.stdout)
        self.assertIn("| half | 1 | made_up | saturated runs have no steady state |", done.stdout)

    def test_predictions_are_kept_until_the_simulator_changes(self):
        self.write_run(run_of("calm"))
        calls = self.simulators / "half.calls"
        for _ in range(2):
            self.assertEqual(self.call("--runs", "made_up").returncode, 0)
        self.assertEqual(calls.read_text(), "xxx")  # three repetitions of the first call
        (self.simulators / "half.py").write_text(HALF + "# changed\n")
        self.assertEqual(self.call("--runs", "made_up").returncode, 0)
        self.assertEqual(calls.read_text(), "xxxxxx")

    def test_an_interrupted_call_goes_on(self):
        (self.simulators / "half.py").unlink()
        (self.simulators / "slow.py").write_text(SLOW)
        self.write_run(run_of("a"))
        self.write_run(run_of("b"))
        command = [sys.executable, str(REFEREE / "run"), "--simulators", str(self.simulators),
                   "--out", str(self.folder / "out"), "--runs", "made_up", "--repetitions", "1"]
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True)
        self.assertIn("[1/2]", first.stderr.readline())
        first.send_signal(signal.SIGINT)
        self.assertIn("the same command goes on", first.communicate()[1])
        self.assertEqual(first.returncode, 130)
        (self.simulators / "awake").touch()
        second = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertNotIn("made_up/a:", second.stderr)
        self.assertIn("[2/2] slow made_up/b:", second.stderr)

    def test_rows_of_other_simulators_are_kept(self):
        kept, old = report.expected_raw(), report.expected_raw()["costs"]
        new = {name: [] for name in kept} | {"costs": [
            {"simulator": "blis", "data_set": "blis16_requests", "run": "r", "cpu_s": "1",
             "published_wall_s": ""},
            {"simulator": "failed", "data_set": "blis16_requests", "run": "r", "cpu_s": "1",
             "published_wall_s": ""}]}
        found = report.merged(new, {"blis"}, {"blis16_requests"})
        names = [row["simulator"] for row in found["costs"]]
        self.assertEqual(names.count("blis"), 1)
        self.assertNotIn("failed", names)
        self.assertEqual([row for row in found["costs"] if row["simulator"] != "blis"],
                         [row for row in old if row["simulator"] != "blis"])

    def test_wrong_usage_is_one_line(self):
        for options, line in ((["--simulator", "none"], "referee: --simulator: found 'none'; "
                               "allowed: half"),
                              (["--runs", "none"], "referee: --runs: found 'none'; allowed: "
                               "lss_vllm_bench (--import adds sets)")):
            done = self.call(*options)
            self.assertEqual((done.returncode, done.stderr.strip()), (2, line))
        (self.simulators / "bare.py").write_text('"""Nothing."""\n')
        done = self.call("--simulator", "bare")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bare.py: predict is missing; allowed: predict(run) -> Prediction",
                      done.stderr)

    def test_a_simulator_that_disagrees_with_itself_fails(self):
        (self.simulators / "half.py").write_text(
            '"""Counts. Command: none."""\nimport itertools\nfrom prediction import Prediction\n'
            "N = itertools.count(1)\n\n"
            "def predict(run):\n    return Prediction(next(N), 1.0, 2.0)\n")
        self.write_run(run_of("calm"))
        done = self.call("--runs", "made_up")
        self.assertEqual(done.returncode, 1)
        self.assertIn("half made_up/calm: two predictions of one run differ", done.stderr)

    def test_a_broken_recording_is_named(self):
        path = self.folder / "out/recorded/made_up/torn.json.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(recordings.packed(run_of("calm"))[:40])
        done = self.call()
        self.assertEqual(done.returncode, 1)
        self.assertIn("torn.json.gz: is no compact run", done.stderr)

    def test_compact_runs_keep_what_predictions_need(self):
        run = run_of("calm")
        self.write_run(run)
        found = recordings.read_compact([self.folder / "out/recorded"])["made_up/calm"]
        self.assertEqual([r.chunks for r in found.requests], [(0, 1), (0,)])
        self.assertEqual([(r.arrival, r.prompt, r.output, r.ttft, r.e2e) for r in found.requests],
                         [(r.arrival, r.prompt, r.output, r.ttft, r.e2e) for r in run.requests])
        self.assertEqual({k: round(v, 9) for k, v in recordings.recorded_ms(found, False).items()},
                         {"ttft": 100.0, "tpot": 10.0, "e2e": 200.0})
        self.assertFalse(recordings.usable(run_of("torn", failed=True)))
        with self.assertRaisesRegex(DataError, "holds no recorded runs"):
            recordings.import_runs(self.folder, self.folder / "out/recorded")

    def test_a_torn_record_is_predicted_again(self):
        path = self.folder / "record.json"
        path.write_text('{"key": "a", "ttft')
        self.assertIsNone(predicting.kept(path, "a"))
        path.write_text(json.dumps({"key": "a", "reason": "r"}))
        self.assertEqual(predicting.kept(path, "a"), {"key": "a", "reason": "r"})
        self.assertIsNone(predicting.kept(path, "b"))


class CheckTest(unittest.TestCase):
    """A copy of the referee, whose tables are changed."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.checks = pathlib.Path(self.scratch.name) / "checks"
        for folder in ("referee", "fidelity"):
            shutil.copytree(SOURCE / "checks" / folder, self.checks / folder,
                            ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(SOURCE / "checks/errors_page.py", self.checks)

    def check(self):
        return subprocess.run([sys.executable, str(self.checks / "referee/run"), "--check",
                               "--simulator", "llmservingsim"], capture_output=True, text=True)

    def replace(self, name, old, new):
        path = self.checks / "referee" / name
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1))

    def test_the_repository_is_in_order(self):
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("repeated with llmservingsim", done.stdout)
        self.assertIn("skipped: errors of 23 runs", done.stderr)

    def test_a_changed_error_is_found_by_its_recording(self):
        self.replace("expected/cells.csv", "judge,6815.74,-3.97", "judge,6815.74,-1.97")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("llmservingsim lss_vllm_bench/RTXPRO6000/Llama-3.1-8B ttft: error -1.97, "
                      "from the recording -3.97", done.stdout)
        self.assertIn("expected/table.csv is stale", done.stdout)
        self.assertIn("README.md is stale", done.stdout)

    def test_a_changed_import_is_found(self):
        self.replace("imported/predictions.csv", "6815.74,32.13", "6815.74,33.13")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("imported/predictions.csv says otherwise", done.stdout)
        self.assertIn("llmservingsim lss_vllm_bench/RTXPRO6000/Llama-3.1-8B: predicts", done.stdout)

    def test_every_import_has_a_source(self):
        names = {row["source"] for row in tables.read_csv(REFEREE / "imported/sources.csv")}
        used = {row["source"] for row in tables.read_csv(REFEREE / "imported/predictions.csv")}
        self.assertLessEqual(used, names)


class TablesTest(unittest.TestCase):
    def test_errors_have_an_interval_from_five_runs_on(self):
        # Absolute errors 1, 2, 3, 4, 5: mean 3, deviation sqrt(2.5), t of 4 degrees 2.776.
        cells = [cell("a", str(i), "ttft", error, inside="1" if i < 4 else "0")
                 for i, error in enumerate((1, -2, 3, -4, 5))]
        row = tables.error_row(cells)
        self.assertEqual((row["runs"], row["mean_abs_error_pct"], row["worst_error_pct"],
                          row["inside"], row["intervals"]), ("5", "3.00", "5.00", "4", "5"))
        self.assertAlmostEqual(float(row["abs_half_width_pct"]), 2.776 * 2.5**0.5 / 5**0.5,
                               delta=0.02)
        self.assertEqual(tables.error_row(cells[:4])["abs_half_width_pct"], "")

    def test_pairs_are_taken_from_common_runs(self):
        cells = [cell("b", "1", "ttft", -2), cell("b", "2", "ttft", 9),
                 cell("twinserve", "1", "ttft", 1, part="fit"), cell("twinserve", "3", "ttft", 7)]
        row, = tables.pair_table(cells)
        self.assertEqual((row["a"], row["b"], row["runs"], row["a_fitted"], row["b_fitted"]),
                         ("twinserve", "b", "1", "1", "0"))
        self.assertEqual((row["difference_pct"], row["a_closer"], row["b_closer"]),
                         ("-1.00", "1", "0"))

    def test_our_worst_cells_name_who_is_closer(self):
        cells = [cell("twinserve", str(i), "e2e", i) for i in range(20)]
        cells += [cell("b", "19", "e2e", 3), cell("c", "19", "e2e", -2)]
        rows = tables.worst_table(cells)
        self.assertEqual([row["error_pct"] for row in rows][:2], ["19", "18"])
        self.assertEqual(len(rows), 10)
        self.assertEqual((rows[0]["closest_other"], rows[1]["closest_other"]), ("c -2.0", ""))


class WorkloadTest(unittest.TestCase):
    def test_a_load_counts_full_blocks_as_cached(self):
        requests = [Request(t, 20, 11, 0.1, 0.2) for t in (0.0, 60.0, 60.5, 61.0)]
        run = RecordedRun("s", "r", "v", "m", "g", requests, "", 7, pool=100, skip_s=60)
        self.assertEqual(workload.load_of(run), workload.Load(3.0, 20, 16, 11))
        run.pool = 0
        self.assertEqual(workload.load_of(run).cached, 0)

    def test_the_load_settles_by_littles_law(self):
        # E2E = 100 x (4 + n) ms at 2/s: n = 0.2 (4 + n), so n = 1.
        latencies = lambda n: (0.0, 4.0 + n)
        ttft, tpot, e2e = workload.settled(latencies, workload.Load(2.0, 20, 0, 101), 50)
        self.assertAlmostEqual(tpot, 5.0, delta=0.1)
        self.assertAlmostEqual(e2e, 100 * tpot)
        # Beyond the capacity, all places are taken.
        self.assertEqual(workload.settled(latencies, workload.Load(20.0, 20, 0, 101), 50),
                         (0.0, 54.0, 5400.0))


if __name__ == "__main__":
    unittest.main()
