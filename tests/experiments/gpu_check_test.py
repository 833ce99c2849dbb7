#!/usr/bin/env python3
"""Tests of checks/gpu_check: how it calls programs, and reads what they say, whole or cut off."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "checks/gpu_check"))

import device_tests  # noqa: E402  (needs the path)
import devices  # noqa: E402
import packing  # noqa: E402
import power_meter  # noqa: E402
import serving  # noqa: E402
import smoke  # noqa: E402
import stages  # noqa: E402
from check import END_SECONDS, TIMED_OUT, Check, Failed, Skipped, Stopped, seconds_for  # noqa: E402

MACHINE = {"commit": "abc", "cuda": {
    "devices": [{"name": "NVIDIA H200", "compute_major": 9}],
    "attention": ["generic", "fa2", "cuda_core"]}}
H100 = {"commit": "abc", "cuda": {"devices": [{"name": "NVIDIA H100 80GB HBM3", "compute_major": 9}],
                                  "attention": ["generic", "fa2", "cuda_core", "fa3"]}}

# Answers as twinserve does on a device; `profile` and `validate` take a minute, behind their first row.
TWINSERVE = f"""\
#!{sys.executable}
import json, pathlib, os, sys, time
sys.path.insert(0, {str(ROOT / "checks/gpu_check")!r})
words = dict(zip(sys.argv[2::2], sys.argv[3::2]))
cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "/nowhere")) / "twinserve/gemm_algorithms.tsv"
if sys.argv[1] == "doctor":
    print(json.dumps({MACHINE!r}))
elif sys.argv[1] == "generate":
    import references
    options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
    facts, prompts = references.read_expected(pathlib.Path(options["--model"]))
    pathlib.Path(options["--out"]).write_text("".join(
        json.dumps({{"prompt": i, "last_logits": each["logits"], "greedy": each["greedy"]}}) + "\\n"
        for i, each in enumerate(prompts)))
elif sys.argv[1] == "bench":
    cache.parent.mkdir(parents=True, exist_ok=True)
    with cache.open("a") as file:
        file.write("heading\\n" if file.tell() == 0 else "more\\n")
    print(json.dumps({{"phase": "decode", "dtype": "bf16", "batch": 1, "step_ms": 5.0,
                      "device_ms": None, "gb_per_s": 1, "gflops": 1}}))
elif sys.argv[1] in ("profile", "validate"):
    file = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
    file.write_text("a row\\n")
    time.sleep(60)
else:
    sys.exit("not here")
"""

GTEST = """\
[==========] Running 4 tests from 1 test suite.
[ RUN      ] Shapes/CudaAttentionTest.OfDecodes/fa2_2_2_64
[       OK ] Shapes/CudaAttentionTest.OfDecodes/fa2_2_2_64 (3 ms)
[ RUN      ] Shapes/CudaAttentionTest.OfDecodes/fa2_4_2_96
attention_case.cc:9: Skipped
fa2: head size 96 (64, 128 and 256 are served)

[  SKIPPED ] Shapes/CudaAttentionTest.OfDecodes/fa2_4_2_96 (0 ms)
[ RUN      ] Shapes/CudaAttentionTest.InWindows/fa2_2_2_64
[  FAILED  ] Shapes/CudaAttentionTest.InWindows/fa2_2_2_64, where GetParam() = 3 (5 ms)
"""


def script(folder, name, text):
    file = folder / name
    file.write_text("#!/bin/bash\n" + text)
    file.chmod(0o755)
    return file


def script_of_twinserve(folder):
    file = folder / "answers"
    file.write_text(TWINSERVE)
    file.chmod(0o755)
    return file


def ends(process):
    """Whether a process that was ended is gone, or nobody's, within ten seconds."""
    for _ in range(100):
        try:
            if " Z " in pathlib.Path(f"/proc/{process}/stat").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.check = Check({"device_test": None}, False, time.monotonic() + 100, MACHINE)
        self.addCleanup(self.check.end)

    def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(self):
        program = script(self.folder, "slow", "echo said; echo complained >&2\nsleep 100 & echo $! > "
                         f"{self.folder}/child\nsleep 100\n")
        begin = time.monotonic()
        done = self.check.call([program], 1)
        self.assertLess(time.monotonic() - begin, 50)
        self.assertEqual(done.returncode, TIMED_OUT)
        self.assertEqual(done.stdout, "said\n")
        self.assertIn("complained\n", done.stderr)
        self.assertIn("slow took more than 1 s", done.stderr)
        self.assertTrue(ends(int((self.folder / "child").read_text())))

    def test_what_a_program_leaves_behind_does_not_outlive_it(self):
        done = self.check.call(["bash", "-c", "sleep 100 & echo $!"], 20)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(ends(int(done.stdout)))

    def test_a_stage_has_no_more_time_than_its_limit(self):
        self.check.begin_stage(1)
        self.assertEqual(self.check.call(["sleep", "100"], 50).returncode, TIMED_OUT)

    def test_what_is_stopped_ends_and_nothing_else_starts(self):
        threading.Timer(0.5, lambda: self.check.stop("SIGTERM came")).start()
        done = self.check.call(["bash", "-c", "echo said; sleep 100"], 50)
        self.assertEqual((done.returncode, done.stdout), (-9, "said\n"))
        with self.assertRaisesRegex(Failed, "SIGTERM came"):
            self.check.call(["true"], 50)

    def test_every_call_is_logged(self):
        self.check.call(["bash", "-c", "echo complained >&2; exit 3"], 20)
        self.assertRegex((self.check.out / "calls.txt").read_text(),
                         r"\$ bash -c .*\n\[3, \d.\d\d s, until \d+\.\d\d\]\ncomplained\n")

    def test_mean_power_is_that_of_the_energy_counter(self):
        source = mock.Mock()
        meter = power_meter.PowerMeter(source)
        meter.rows = [{"unix_s": t, "joules": 100.0 * t + 7, "watts": 1.0} for t in range(10)]
        self.assertAlmostEqual(meter.mean_watts(2, 6), 100.0)
        self.assertIsNone(meter.mean_watts(2.1, 2.9))
        meter.write(self.folder / "power.csv")
        self.assertEqual((self.folder / "power.csv").read_text().splitlines()[:2],
                         ["unix_s,joules,watts", "0,7.0,1.0"])

    def test_a_stage_that_lacks_its_minimum_is_skipped(self):
        self.assertEqual(seconds_for(100, 60, 200), 100)
        self.assertEqual(seconds_for(100, 60, 70), 70 - END_SECONDS)
        self.assertIsNone(seconds_for(100, 60, 60))

    def test_budgets_fit_into_their_quarter(self):
        for quarter, most in ((1, 395), (2, 235)):
            seconds, budgets = stages.QUARTERS[quarter]
            self.assertEqual(seconds, most)
            self.assertLessEqual(sum(budget for budget, _ in budgets.values()), seconds + 40)
            self.assertLessEqual(sum(minimum for _, minimum in budgets.values()), seconds)
            self.assertLessEqual(set(budgets), set(stages.STAGES))

    def test_every_stage_is_in_a_check_without_a_quarter(self):
        self.assertEqual(set(stages.QUARTERS[None][1]), set(stages.STAGES))

    def bench_of(self, line, ending):
        self.check.programs["twinserve"] = script(
            self.folder, "twinserve", f"echo '{line}'; echo '{line[:20]}'; {ending}\n")

    def test_bars_measured_before_a_failure_are_kept(self):
        line = json.dumps({"phase": "decode", "dtype": "bf16", "batch": 32, "step_ms": 6.4,
                           "device_ms": 6.3, "gb_per_s": 4000.0, "gflops": 1e5})
        self.bench_of(line, "echo broken >&2; exit 1")
        with self.assertRaisesRegex(Failed, "32 x 4096 ended with 1: broken.*by fa3") as failure:
            stages.bars(self.check)
        self.assertIn("within prediction 6.25 [5.82, 6.71], floor 4.49",
                      failure.exception.facts["lines"][0])
        self.assertIn("bf16,decode,32,1024,6.4,6.3,4.49,6.25,5.82,6.71,4000.0,100.0",
                      (self.check.out / "bars.csv").read_text())

    def test_predictions_are_those_of_the_device_by_name(self):
        self.assertEqual(devices.hardware_of("NVIDIA H100 80GB HBM3"), "h100-sxm")
        self.assertEqual(devices.hardware_of("NVIDIA H200"), "h200-sxm")
        self.assertIsNone(devices.hardware_of("NVIDIA H100 PCIe"))
        bar = devices.bar_of("h100-sxm", "decode", 1, 1024)
        self.assertEqual(bar["predicted_ms"], 6.52)
        self.assertEqual(devices.bar_of(None, "decode", 1, 1024)["floor_ms"], "")
        self.check.machine = H100
        self.assertIn("system.hardware=h100-sxm", serving.settings_of_run(self.check, 20))

    def test_predictions_lie_above_their_floors_and_in_their_intervals(self):
        for bars in devices.BARS.values():
            for floor, predicted, low, high in bars.values():
                self.assertLess(low, predicted)
                self.assertLess(predicted, high)
                self.assertLess(floor, predicted)

    def test_broken_attention_kernels_are_replaced(self):
        self.assertEqual(smoke.replacement("auto", []), "auto")
        self.assertEqual(smoke.replacement("auto", ["fa3"]), "fa2")
        self.assertEqual(smoke.replacement("fa2", ["fa3"]), "fa2")
        self.assertEqual(smoke.replacement("cuda_core", ["fa3"]), "cuda_core")
        self.assertEqual(smoke.replacement("auto", ["cuda_core"]), "generic")
        self.assertEqual(smoke.replacement("auto", ["fa2", "fa3"]), "generic")
        self.check.attention = "fa2"
        self.assertEqual(self.check.attention_words(), ["--attention", "fa2"])
        self.assertIn("world.real.attention=fa2", serving.settings_of_run(self.check, 20))

    def device_test(self, text):
        self.check.programs["device_test"] = script(self.folder, "device_test", text)

    def test_a_kernel_that_hangs_is_replaced(self):
        self.device_test("echo '[ RUN      ] A.B'\ncase $1 in *fa3*) sleep 100;; esac\n"
                         "echo '[       OK ] A.B (1 ms)'\n")
        kernels = [(*kernel[:2], 1) for kernel in smoke.KERNELS]
        rows = []
        with mock.patch.object(smoke, "KERNELS", kernels):
            smoke.smoke_kernels(self.check, rows)
        self.assertEqual([row["status"] for row in rows], ["pass"] * 4 + ["fail"])
        self.assertEqual(rows[-1]["note"], "hangs in A.B")
        self.assertEqual(self.check.attention, "fa2")

    def test_without_products_the_check_ends_with_the_sanitizers_words(self):
        self.device_test("echo '[ RUN      ] A.B'\ncase $1 in *Gemm*) exit 3;; esac\n"
                         "echo '[       OK ] A.B (1 ms)'\n")
        script(self.folder, "compute-sanitizer", "echo '========= Invalid read'; exit 9\n")
        with mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"):
            with self.assertRaisesRegex(Stopped, "products do not work: A.B; memcheck: 1 errors"):
                smoke.smoke_kernels(self.check, [])

    def test_overlap_is_turned_off_where_models_agree_without(self):
        self.check.programs["twinserve"] = script(
            self.folder, "twinserve", "[ \"$TWIN_KERNEL_OVERLAP\" = 0 ] || exit 1\n"
            f"exec {script_of_twinserve(self.folder)} \"$@\"\n")
        folders, rows = self.check.reference_models()[-1:], []
        self.assertEqual(smoke.smoke_models(self.check, folders, rows), [])
        self.assertFalse(self.check.overlap)
        self.assertEqual([row["status"] for row in rows], ["fail", "pass"])

    def test_models_that_never_agree_leave_overlap_on(self):
        self.check.programs["twinserve"] = script(self.folder, "twinserve", "exit 1\n")
        folders = self.check.reference_models()[-1:]
        self.assertEqual(smoke.smoke_models(self.check, folders, []), [folders[0].name])
        self.assertTrue(self.check.overlap)

    def test_smoke_names_tests_that_exist(self):
        sources = "".join(file.read_text() for file in (ROOT / "tests/unit").rglob("*_test.cc"))
        for _, chosen, _ in smoke.KERNELS:
            for suite, test in re.findall(r"\*(\w+)\.(\w+)", chosen):
                self.assertRegex(sources, rf"TEST(_P|_F)?\({suite}, {test}")

    def test_the_first_quarter_tells_the_second_what_to_mend(self):
        shard = {"shard": "fa3", "exit_code": 124, "failed": ["A.B"], "ended_in": "A.C"}
        self.check.previous = {"device": "NVIDIA H200", "stages": {
            "smoke": {"status": "pass"}, "tests": {"shards": [shard], "not_reached": ["fa2"]}}}
        self.check.quarter = 2
        self.assertEqual([shard[1] for shard in device_tests.shards_to_mend(self.check)],
                         ["A.B:A.C", "*fa2*"])
        self.assertTrue(smoke.is_short(self.check))
        self.check.machine = H100
        self.assertFalse(smoke.is_short(self.check))

    def test_algorithms_of_several_calls_are_used(self):
        files = [self.folder / str(i) for i in range(3)]
        for file, text in zip(files, ("old\nline 0\n", "new\nline 1\n", "new\nline 1\nline 2\n")):
            file.write_text(text)
        self.check.seed_algorithms(files)
        self.assertEqual(self.check.algorithms.read_text(), "new\nline 1\nline 2\n")

    def test_an_archive_too_large_loses_its_largest_file(self):
        (self.check.out / "small").write_text("kept")
        (self.check.out / "large").write_bytes(os.urandom(100000))
        with mock.patch.object(packing, "ARCHIVE_BYTES_MAX", 50000):
            left_out = packing.write_archive(self.folder / "a.tar.xz", self.check.out, "a")
        self.assertEqual(left_out, ["large"])
        with tarfile.open(self.folder / "a.tar.xz") as packed:
            self.assertEqual(packed.getnames(), ["a/small"])

    def test_a_policy_is_told_with_its_errors(self):
        metrics = {name: {"measured": 10.0, "predicted": 9.0, "error_percent": -10.0}
                   for name in serving.METRICS}
        told = {"digest_equal": True, "metrics": metrics,
                "steps": {"all": {"bias_percent": -1.5, "median_error_percent": 3.0}}}
        row = serving.row_of("orca", told)
        self.assertEqual((row["replay"], row["mean_tpot_ms"], row["mean_tpot_ms_predicted"]),
                         ("equal", 10.0, 9.0))
        self.assertEqual(serving.line_of(row), "orca: replay equal, TTFT 10.00 ms (-10.00 %), "
                         "TPOT 10.00 ms (-10.00 %), end to end 10.00 ms (-10.00 %)")

    def test_nodes_are_summed_by_name(self):
        step = {"batch": "1", "length": "16"}
        rows = [{**step, "name": "gemm", "us": "10", "gap_us": "1"},
                {**step, "name": "norm", "us": "2", "gap_us": ""},
                {**step, "name": "gemm", "us": "20", "gap_us": "3"}]
        self.assertEqual(stages.line_of_nodes("decode", rows),
                         "decode 1 x 16: 3 kernels, 0.032 ms, gaps 0.004 ms; gemm 30 us, norm 2 us")

    def test_tests_are_counted_and_skips_and_failures_named(self):
        program = script(self.folder, "tests", f"cat <<'END'\n{GTEST}END\nexit 1\n")
        result = device_tests.outcome("fa2", self.check.call([program], 20))
        self.assertEqual(result["passed"], 1)
        self.assertEqual(result["failed"], ["Shapes/CudaAttentionTest.InWindows/fa2_2_2_64"])
        self.assertEqual(result["skipped"], {
            "Shapes/CudaAttentionTest.OfDecodes/fa2_4_2_96":
                "fa2: head size 96 (64, 128 and 256 are served)"})
        self.assertNotIn("ended_in", result)

    def test_a_crash_is_reported_with_its_test(self):
        program = script(self.folder, "tests", "echo '[ RUN      ] A.B'; kill -SEGV $$\n")
        result = device_tests.outcome("fa3", self.check.call([program], 20))
        self.assertEqual(result["ended_in"], "A.B")

    def test_a_sanitizer_that_does_not_know_the_device_says_so(self):
        script(self.folder, "compute-sanitizer",
               "echo '========= Error: Device not supported. See the manual.'; exit 1\n")
        with mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"):
            found, text = device_tests.memcheck(self.check, "A.B")
        self.assertEqual(found, "Error: Device not supported. See the manual.")
        self.assertIn("memcheck of A.B", text)

    def test_shards_hold_every_test_once(self):
        import fnmatch
        names = ["CudaNormTest.A", "Shapes/CudaAttentionTest.A/fa3_2_2_64_bf16", "CudaGridTest.A",
                 "Kernels/AttentionKernelsTest.A/cuda_core", "Kernels/AttentionKernelsTest.A/generic",
                 "Kernels/CudaAttentionKernelTest.A/fa2", "CudaExecutorTest.A", "CudaFp8ModelTest.A",
                 "Checkpoints/CudaStoredInt4Test.A/awq", "CudaInt4GemmTest.A"]
        for name in names:
            count = 0
            for _, chosen, _ in device_tests.SHARDS:
                take, _, leave = chosen.partition("-")
                count += (any(fnmatch.fnmatchcase(name, word) for word in take.split(":"))
                          and not any(fnmatch.fnmatchcase(name, word) for word in leave.split(":")))
            self.assertEqual(count, 1, name)

    def test_shards_without_time_are_named(self):
        self.device_test("echo '[       OK ] A.B (1 ms)'\n")
        self.check.begin_stage(2)
        facts = device_tests.run_shards(self.check, device_tests.SHARDS)
        self.assertEqual(len(facts["not_reached"]), len(device_tests.SHARDS))

    def test_no_device_tests_are_a_failure_unless_quick(self):
        self.check.programs["device_test"] = None
        with self.assertRaises(Failed):
            device_tests.tests(self.check)
        self.check.quick = True
        with self.assertRaises(Skipped):
            device_tests.tests(self.check)


class WholeCheckTest(unittest.TestCase):
    """The script itself, beside a program that answers as twinserve does."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.out = self.folder / "out"
        self.program = script_of_twinserve(self.folder)

    def start(self, *words):
        return subprocess.Popen(
            [sys.executable, ROOT / "checks/gpu_check/run", "--quick", "--binary", self.program,
             "--out", self.out, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TMPDIR": str(self.folder)})

    def names(self, number):
        """What the archive of a call holds."""
        with tarfile.open(self.out / f"call_{number}.tar.xz") as packed:
            return {name.removeprefix(f"call_{number}/") for name in packed.getnames()}

    def test_two_calls_leave_four_files_each(self):
        for words in (("--quarter", "1"), ("--quarter", "1"), ("--call", "7")):
            said = self.start(*words, "--stages", "smoke,bars").communicate(timeout=60)[0]
            self.assertIn("decode 1 x 16: 5.0 ms", said)
        self.assertEqual(sorted(file.name for file in self.out.iterdir()), sorted(
            f"call_{number}{ending}" for number in (1, 2, 7)
            for ending in (".tar.xz", "_summary.txt", "_summary.json", "_gemm_algorithms.tsv")))
        self.assertLessEqual({"bars.csv", "smoke.csv", "models.csv", "calls.txt", "machine.json",
                              "gemm_algorithms.tsv"}, self.names(2))

    def await_stage(self, process, name):
        for line in process.stdout:
            if line == f"gpu_check: {name}\n":
                return
        self.fail(f"{name} did not begin")

    def test_a_call_that_is_terminated_brings_back_the_stage_too(self):
        process = self.start("--stages", "bars,profile,peers")
        self.await_stage(process, "profile")
        time.sleep(1)
        process.terminate()
        said = process.communicate(timeout=20)[0]
        self.assertEqual(process.returncode, 1, said)
        self.assertLessEqual({"bars.csv", "profile.csv"}, self.names(1))
        stages_told = json.loads((self.out / "call_1_summary.json").read_text())["stages"]
        self.assertEqual(stages_told["peers"]["reason"], "SIGTERM came")

    def test_a_call_that_is_killed_leaves_the_stages_before(self):
        process = self.start("--stages", "bars,profile")
        self.await_stage(process, "profile")
        process.kill()
        process.communicate(timeout=20)
        self.assertIn("bars.csv", self.names(1))

    def test_the_script_ends_before_its_deadline(self):
        begin = time.monotonic()
        process = self.start("--stages", "bars,profile,run", "--seconds", "12")
        said = process.communicate(timeout=20)[0]
        self.assertLess(time.monotonic() - begin, 12)
        self.assertIn("twinserve validate ended with 124", said)
        self.assertLessEqual({"profile.csv", "run"}, self.names(1))


if __name__ == "__main__":
    unittest.main()
