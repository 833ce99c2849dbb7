#!/usr/bin/env python3
"""Checks that docs/errors.md says what the tables of the checks say, and how errors_page.py counts.

Usage: tests/experiments/errors_page_test.py SOURCE_DIR
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "checks"))
sys.dont_write_bytecode = True
import errors_page  # noqa: E402 (its folder comes first)

READS = ("checks/errors_page.py", "checks/history.csv", "checks/fidelity/expected",
         "checks/claims/expected", "checks/gpu_check/results", "docs/errors.md", "docs/scope.md",
         "sim/devices/profiles", "CMakeLists.txt")


def error(run, part, metric, value, failed="0", tensor="1"):
    return {"data_set": "blis16_requests", "run": run, "part": part, "gpu": "h100-sxm",
            "model": "llama-2-7b", "tensor": tensor, "failed": failed, "metric": metric,
            "error_pct": str(value), "noise_pct": "", "server": "vllm-0.15.1"}


class PageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in READS:
            place = self.root / name
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (SOURCE / name).is_dir() else shutil.copy
            copy(SOURCE / name, place)

    def call(self, *options):
        return subprocess.run([sys.executable, str(SOURCE / "checks/errors_page.py"), "--root",
                               str(self.root), *options], capture_output=True, text=True)

    def replace(self, name, old, new):
        text = (self.root / name).read_text()
        self.assertIn(old, text)
        (self.root / name).write_text(text.replace(old, new, 1))

    def test_the_tree_is_up_to_date(self):
        done = self.call("--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_number_that_disagrees_is_found_in_each_file(self):
        self.replace("docs/errors.md", "| mean TPOT | 16 |", "| mean TPOT | 17 |")
        self.replace("docs/scope.md", "-->KV blocks 2.9 %<", "-->KV blocks 2.8 %<")
        self.replace("checks/history.csv", "tpot_mean,16,", "tpot_mean,17,")
        done = self.call("--check")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.split("errors_page: ")[1:],
                         [f"{name} is stale; checks/errors_page.py writes it\n"
                          for name in ("docs/errors.md", "checks/history.csv", "docs/scope.md")])

    def test_a_changed_table_changes_the_page_and_the_rows_of_this_version(self):
        self.replace("checks/fidelity/expected/errors.csv",
                     "agg_2rps.patched,judge,h100-sxm,qwen3-14b,1,client,0,tpot_mean,-0.20",
                     "agg_2rps.patched,judge,h100-sxm,qwen3-14b,1,client,0,tpot_mean,-16.20")
        self.assertEqual(self.call("--check").returncode, 1)
        self.assertEqual(self.call().returncode, 0)
        # One of 16 runs is 16 % lower: the mean falls by 1, and was 0.03.
        self.assertIn("0.1.0,tpot_mean,16,-0.97,", (self.root / "checks/history.csv").read_text())
        self.assertEqual(self.call("--check").returncode, 0)

    def test_a_new_version_keeps_the_rows_of_earlier_ones(self):
        before = (self.root / "checks/history.csv").read_text()
        self.replace("CMakeLists.txt", "VERSION 0.1.0", "VERSION 0.2.0")
        self.assertEqual(self.call().returncode, 0)
        after = (self.root / "checks/history.csv").read_text()
        self.assertEqual(after, before + before.split("\n", 1)[1].replace("0.1.0,", "0.2.0,"))

    def test_names_that_the_page_has_no_words_for_are_one_line(self):
        self.replace("docs/scope.md", "<!-- ranks -->", "<!-- rank -->")
        done = self.call("--check")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^errors_page: docs/scope.md: no number rank; allowed: .*\n$")


class NumbersTest(unittest.TestCase):
    def test_only_judging_runs_in_which_no_client_gave_up_count(self):
        errors = [error("a", "judge", "tpot_mean", 1.0), error("b", "fit", "tpot_mean", 5.0),
                  error("c", "judge", "tpot_mean", 9.0, failed="3"),
                  error("d", "judge", "e2e_mean", 7.0)]
        rows, _ = errors_page.headline(errors, [])["tpot_mean"]
        self.assertEqual(errors_page.values(rows), [1.0])

    def test_the_interval_of_a_mean_is_students_from_five_runs_on(self):
        # Quantiles of Student's t at 97.5 %: 2.776 (4), 2.201 (11), 1.960 (infinite).
        for freedom, quantile in ((4, 2.776), (11, 2.201), (10**9, 1.960)):
            self.assertAlmostEqual(errors_page.student_95(freedom), quantile, delta=0.011)
        # Mean 3, standard deviation sqrt(2.5), five runs: 2.77 * sqrt(2.5 / 5) = 1.96.
        self.assertEqual(errors_page.of_mean([1, 2, 3, 4, 5]), "+3.0 ± 2.0")
        self.assertEqual(errors_page.of_mean([1, 2, 3, 6]), "+3.0")

    def test_half_widths_are_relative_to_the_middle(self):
        # exp(0.02) from 1 to the middle and on to the end: 2 % either way.
        self.assertAlmostEqual(errors_page.half_width([{"low": "1", "high": "1.0408108"}]), 2.0, 4)

    def test_a_metric_to_which_all_runs_were_fitted_is_not_called_measured_or_missing(self):
        errors = [error("a", "fit", "tpot_mean", 1.0), error("b", "judge", "e2e_mean", -2.0)]
        row = errors_page.by_system(errors, "judge", errors_page.error_cell).splitlines()[-1]
        self.assertEqual(row, "| llama-2-7b, h100-sxm, vLLM 0.15.1 | not measured | not measured | "
                              "not measured | only fitted | -2.0 | not measured |")


if __name__ == "__main__":
    unittest.main()
