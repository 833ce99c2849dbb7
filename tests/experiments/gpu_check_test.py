#!/usr/bin/env python3
"""Tests of experiments/gpu_check: how it calls programs, and reads what they say, whole or cut off."""
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments/gpu_check"))

import device_tests  # noqa: E402  (needs the path)
import stages  # noqa: E402
from check import TIMED_OUT, Check, Failed, Skipped  # noqa: E402

MACHINE = {"cuda": {"devices": [{"compute_major": 9}], "attention": ["generic", "fa2", "cuda_core"]}}

GTEST = """\
[==========] Running 4 tests from 1 test suite.
[ RUN      ] Shapes/CudaAttentionTest.OfDecodes/fa2_2_2_64_bf16
[       OK ] Shapes/CudaAttentionTest.OfDecodes/fa2_2_2_64_bf16 (3 ms)
[ RUN      ] Shapes/CudaAttentionTest.OfDecodes/fa2_2_2_64_fp16
attention_case.cc:9: Skipped
fa2: fp16 was not built (TWIN_FLASHINFER_FP16)

[  SKIPPED ] Shapes/CudaAttentionTest.OfDecodes/fa2_2_2_64_fp16 (0 ms)
[ RUN      ] Shapes/CudaAttentionTest.InWindows/fa2_2_2_64_bf16
[  FAILED  ] Shapes/CudaAttentionTest.InWindows/fa2_2_2_64_bf16, where GetParam() = 3 (5 ms)
"""


def script(folder, name, text):
    file = folder / name
    file.write_text("#!/bin/bash\n" + text)
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
        self.check = Check({}, self.folder, False, time.monotonic() + 100, MACHINE)
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

    def test_bars_measured_before_a_failure_are_kept(self):
        line = json.dumps({"phase": "decode", "batch": 32, "tokens": 512, "tokens_per_s": 5000.0,
                           "gb_per_s": 4000.0, "gflops": 1e5})
        self.check.programs["twinserve"] = script(
            self.folder, "twinserve", f"echo '{line}'; echo '{line[:20]}'; echo broken >&2; exit 1\n")
        rows = []
        with self.assertRaises(Failed) as failure:
            stages.bench(self.check, "bf16", 1024, "32", 2048, rows)
        self.assertIn("broken", str(failure.exception))
        self.assertEqual([(row["milliseconds"], row["bar_h200"]) for row in rows], [(6.4, 6.0)])
        self.assertIn("6.4", (self.folder / "bars.csv").read_text())

    def test_a_build_without_fa3_fails_on_hopper(self):
        with self.assertRaisesRegex(Failed, "no attention by fa3, only generic, fa2, cuda_core"):
            stages.require_attention(self.check)

    def test_benchmarks_before_a_cut_are_read(self):
        entries = [{"name": f"BM_Gemm/{i}/iterations:1/manual_time", "real_time": 1.5,
                    "iterations": 1, "repetitions": 1} for i in range(3)]
        whole = json.dumps({"context": {"caches": []}, "benchmarks": entries}, indent=2)
        self.assertEqual(stages.read_benchmarks(whole),
                         [{"name": f"BM_Gemm/{i}", "real_time": 1.5} for i in range(3)])
        cut = whole[:whole.index("BM_Gemm/2")]
        self.assertEqual(len(stages.read_benchmarks(cut)), 2)
        self.assertEqual(stages.read_benchmarks(""), [])

    def test_tests_are_counted_and_skips_and_failures_named(self):
        program = script(self.folder, "tests", f"cat <<'END'\n{GTEST}END\nexit 1\n")
        result = device_tests.outcome("fa2", self.check.call([program], 20))
        self.assertEqual(result["passed"], 1)
        self.assertEqual(result["failed"], ["Shapes/CudaAttentionTest.InWindows/fa2_2_2_64_bf16"])
        self.assertEqual(result["skipped"], {
            "Shapes/CudaAttentionTest.OfDecodes/fa2_2_2_64_fp16":
                "fa2: fp16 was not built (TWIN_FLASHINFER_FP16)"})
        self.assertNotIn("ended_in", result)

    def test_a_crash_is_reported_with_its_test(self):
        program = script(self.folder, "tests", "echo '[ RUN      ] A.B'; kill -SEGV $$\n")
        result = device_tests.outcome("fa3", self.check.call([program], 20))
        self.assertEqual(result["ended_in"], "A.B")

    def test_memcheck_runs_over_every_attention_kernel(self):
        names = [f"Shapes/CudaAttentionTest.OfDecodes/{kernel}_8_2_128_bf16"
                 for kernel in ("fa2", "fa3", "generic")]
        names += ["Shapes/CudaAttentionTest.OfDecodes/cuda_core_4_2_64_bf16", "CudaNormTest.A",
                  "CudaNormTest.B", "CudaGemmDeathTest.A"]
        self.assertEqual(device_tests.memcheck_filter(names).split(":"),
                         [*names[:2], *names[3:5]])

    def test_a_sanitizer_that_does_not_know_the_device_is_a_skip(self):
        tool = script(self.folder, "compute-sanitizer",
                      "echo '========= Error: Device not supported. See the manual.'; exit 1\n")
        lists = script(self.folder, "device_test", "echo A.; echo '  B'\n")
        os.environ["PATH"] = f"{self.folder}:{os.environ['PATH']}"
        self.assertEqual(device_tests.sanitizer(), str(tool))
        found, text = device_tests.memcheck(self.check, lists)
        self.assertEqual(found, {"skipped": "Error: Device not supported. See the manual."})
        self.assertIn("memcheck of A.B", text)

    def test_shards_hold_every_test_once(self):
        import fnmatch
        names = ["CudaNormTest.A", "Shapes/CudaAttentionTest.A/fa3_2_2_64_bf16", "CudaGridTest.A",
                 "Kernels/AttentionKernelsTest.A/cuda_core", "Kernels/AttentionKernelsTest.A/generic",
                 "Kernels/CudaAttentionKernelTest.A/fa2", "CudaExecutorTest.A"]
        for name in names:
            count = 0
            for _, chosen, _ in device_tests.SHARDS:
                take, _, leave = chosen.partition("-")
                count += (any(fnmatch.fnmatchcase(name, word) for word in take.split(":"))
                          and not any(fnmatch.fnmatchcase(name, word) for word in leave.split(":")))
            self.assertEqual(count, 1, name)

    def test_three_calls_hold_every_stage_once(self):
        called = [name for names, _ in stages.CALLS.values() for name in names]
        self.assertEqual(sorted(called), sorted(stages.STAGES))
        self.assertTrue(all(seconds < 600 for _, seconds in stages.CALLS.values()))

    def test_no_device_tests_are_a_failure_unless_quick(self):
        self.check.programs["device_test"] = None
        with self.assertRaises(Failed):
            device_tests.tests(self.check)
        self.check.quick = True
        with self.assertRaises(Skipped):
            device_tests.tests(self.check)


if __name__ == "__main__":
    unittest.main()
