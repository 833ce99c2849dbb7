#!/usr/bin/env python3
"""Checks checks/fidelity/held_out on small tables whose times follow a formula.

Usage: tests/experiments/held_out_test.py SOURCE_DIR TWINSERVE
"""
import csv
import gzip
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY = pathlib.Path(sys.argv.pop(2))
SCRIPT = pathlib.Path(sys.argv.pop(1)) / "checks/fidelity/held_out"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("held_out", str(SCRIPT))
held_out = importlib.util.module_from_spec(importlib.util.spec_from_loader("held_out", loader))
loader.exec_module(held_out)
data_sheets = sys.modules["data_sheets"]  # of its folder

SIZES = (1024, 2048, 4096, 8192)
FIT_REPORT = """\
set                                  use    steps                number    median       p90
one.steps                            fit    all                    5293    0.98 %    2.94 %   -0.50 %
two.steps                            judge  decode                 4482    0.85 %    2.45 %   -0.57 %
two.steps                            judge  mixed, E > .7           108    2.18 %    4.95 %   -1.74 %
"""


def seconds(m, n, k):
    """An H100 with 75 % of its peak and of its bandwidth."""
    return 3e-6 + max(2 * m * n * k / 742e12, 2 * (m * n + n * k + m * k) / 2.51e12)


def write_gemms(path, libraries=("vllm",)):
    with gzip.open(path, "wt", newline="") as file:
        out = csv.writer(file)
        out.writerow(["backend", "version", "dtype", "m", "n", "k", "kernel", "latency_us"])
        for n in SIZES:
            for k in SIZES:
                for m in (1, 64, 256, 1024, 4096):
                    for library in libraries:
                        out.writerow([library, "0.24.0", "bfloat16", m, n, k, "x",
                                      f"{1e6 * seconds(m, n, k):.6g}"])


def write_prompts(path):
    """16 us, and 1 us for heads x length^2 = 1e6, of five pairs of heads, two libraries and caches of
    both formats."""
    with gzip.open(path, "wt", newline="") as file:
        out = csv.writer(file)
        out.writerow(["backend", "version", "kernel", "attn_dtype", "kv_dtype", "num_heads",
                      "num_kv_heads", "head_dim", "window", "batch", "seq_len", "latency_us"])
        for library in ("vllm", "sglang"):
            for cache in ("bfloat16", "fp8"):
                for heads in (4, 8, 16, 32, 64):
                    for length in (256, 1024, 4096):
                        out.writerow([library, "0.24.0", "x", "bfloat16", cache, heads, 4, 128, 0, 2,
                                      length, 16 + heads * length * length / 1e6])


def write_conversions(path):
    """5 us, and 1 us for a million activations, of six widths."""
    with gzip.open(path, "wt", newline="") as file:
        out = csv.writer(file)
        out.writerow(["backend", "version", "kernel", "op", "m", "k", "latency_us"])
        for k in (256, 512, 1024, 2048, 4096, 8192):
            for m in (1, 16, 256, 4096):
                out.writerow(["vllm", "0.24.0", "x", "scale_matrix", m, k, 5 + m * k / 1e6])


def held_out_table(what, data, out, gpu, *options):
    """Runs the script and returns the rows of its table."""
    subprocess.run([str(SCRIPT), what, str(data), "--gpu", gpu, *options, "--binary", str(BINARY),
                    "--out", str(out)], check=True)
    with (out / f"held_out.{what}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


class HeldOutTest(unittest.TestCase):
    def test_every_pair_is_predicted_without_its_own_measurements(self):
        with tempfile.TemporaryDirectory() as scratch:
            data, out = pathlib.Path(scratch) / "data", pathlib.Path(scratch) / "out"
            data.mkdir()
            write_gemms(data / "gemm_h100_sxm.csv.gz", ("vllm", "sglang"))
            table = held_out_table("shapes", data, out, "h100_sxm", "--folds", "2")
            self.assertEqual([(row["operation"], row["rows"], row["groups"]) for row in table],
                             [("gemm, vllm", "80", "16"), ("gemm, sglang", "80", "16")])
            for row in table:
                self.assertLess(float(row["median_pct"]), 5)
            kept = set()
            for fold in (0, 1):
                with (out / f"gemm_h100_sxm_{fold}/tables/gemm_h100_sxm.csv").open() as file:
                    pairs = {(r["n"], r["k"]) for r in csv.DictReader(file)}
                with (out / f"gemm_h100_sxm_{fold}/in.csv").open(newline="") as file:
                    asked = list(csv.DictReader(file))
                self.assertFalse(pairs & {(r["n"], r["k"]) for r in asked})
                self.assertNotIn("latency_us", asked[0])
                kept |= pairs
            self.assertEqual(len(kept), 16)

    def test_other_libraries_lose_what_is_held_out_unless_only_vllm_does(self):
        for what, kept_by_others in (("tokens", False), ("vllm_tokens", True)):
            with self.subTest(what), tempfile.TemporaryDirectory() as scratch:
                data, out = pathlib.Path(scratch) / "data", pathlib.Path(scratch) / "out"
                data.mkdir()
                write_gemms(data / "gemm_h100_sxm.csv.gz", ("vllm", "sglang"))
                table = held_out_table(what, data, out, "h100_sxm", "--folds", "3")
                self.assertEqual(len(table), 1 if kept_by_others else 2)
                self.assertEqual((table[0]["rows"], table[0]["groups"]), ("80", "5"))
                for table in out.glob("*/tables/gemm_h100_sxm.csv"):
                    with table.open(newline="") as file:
                        rows = list(csv.DictReader(file))
                    with (table.parent.parent / "in.csv").open(newline="") as file:
                        asked = {r["m"] for r in csv.DictReader(file)}
                    kept = {r["backend"]: {q["m"] for q in rows if q["backend"] == r["backend"]}
                            for r in rows}
                    self.assertFalse(kept["vllm"] & asked)
                    self.assertEqual(asked <= kept["sglang"], kept_by_others)

    def test_heads_are_held_out_of_every_library_and_format(self):
        with tempfile.TemporaryDirectory() as scratch:
            data, out = pathlib.Path(scratch) / "data", pathlib.Path(scratch) / "out"
            data.mkdir()
            write_prompts(data / "context_attention_h100_sxm.csv.gz")
            [row] = held_out_table("all_heads", data, out, "h100_sxm", "--folds", "2")
            self.assertEqual((row["rows"], row["groups"]), ("60", "5"))
            asked = []
            for table in out.glob("*/tables/context_attention_h100_sxm.csv"):
                with table.open(newline="") as file:
                    kept = {r["num_heads"] for r in csv.DictReader(file)}
                with (table.parent.parent / "in.csv").open(newline="") as file:
                    rows = list(csv.DictReader(file))
                self.assertFalse(kept & {r["num_heads"] for r in rows})
                asked += [(r["backend"], r["kv_dtype"], r["num_heads"], r["seq_len"]) for r in rows]
            self.assertEqual(len(set(asked)), 60)

    def test_one_fold_of_the_shapes_of_a_newer_operation_is_held_out(self):
        for folds in ("2", "1000"):  # of 1,000 folds, the first is empty: it gets one shape
            with self.subTest(folds), tempfile.TemporaryDirectory() as scratch:
                data, out = pathlib.Path(scratch) / "aic", pathlib.Path(scratch) / "out"
                (data.parent / "aic2").mkdir()
                write_conversions(data.parent / "aic2/scale_matrix_b200_sxm.csv.gz")
                [row] = held_out_table("operations", data, out, "b200_sxm", "--folds", folds)
                self.assertEqual((row["of"], row["operation"], row["groups"]),
                                 ("b200", "scale_matrix, vllm", "6"))
                self.assertLess(float(row["median_pct"]), 10)
                place = out / "scale_matrix_b200_sxm_0"
                with (place / "tables/scale_matrix_b200_sxm.csv").open(newline="") as file:
                    kept = {r["k"] for r in csv.DictReader(file)}
                with (place / "in.csv").open(newline="") as file:
                    asked = {r["k"] for r in csv.DictReader(file)}
                self.assertEqual(len(kept) + len(asked), 6)
                self.assertTrue(asked and not kept & asked)

    def test_nothing_held_out_judges_the_shipped_profile(self):
        with tempfile.TemporaryDirectory() as scratch:
            data, out = pathlib.Path(scratch) / "data", pathlib.Path(scratch) / "out"
            data.mkdir()
            write_prompts(data / "context_attention_a100_sxm.csv.gz")
            [row] = held_out_table("nothing", data, out, "a100_sxm")
            self.assertEqual((row["operation"], row["rows"]), ("context_attention", "60"))
            self.assertFalse(list(out.glob("*/tables")))

    def test_power_limits_narrow_tensor_cores_alone(self):
        # A30: 165 operations of the peak per 165 W, H100: 989 per 700 W.
        a30 = {"peak_bf16_flops": 165e12, "peak_fp32_flops": 10.3e12, "sm_count": 56}
        h100 = {"peak_bf16_flops": 989e12, "peak_fp32_flops": 67e12, "sm_count": 132}
        limited = data_sheets.flops_fraction(a30, 165, 0.8, 0.6e12)
        self.assertAlmostEqual(limited, (0.8 ** -8 + 0.6 ** -8) ** (-1 / 8))
        self.assertAlmostEqual(data_sheets.flops_fraction(a30, 1e6, 0.8, 0.6e12), 0.8)
        self.assertEqual(data_sheets.flops_fraction(h100, 700, 0.8, 0.6e12), 0.8)

    def test_closed_forms_of_attention_are_written_in_microseconds_and_bytes(self):
        # The H100's sheet: 1.983 GHz, 989 TFLOP/s, 132 SMs, 3.35 TB/s, 52,428,800 bytes of L2.
        sheet = data_sheets.data_sheet("h100_sxm")
        value = lambda number, unit: data_sheets.attention_value(sheet, number, unit, 128)
        self.assertAlmostEqual(value(19828, "cycles"), 10, places=3)
        # Fixed cycles and keys of a tile, with its rows.
        self.assertAlmostEqual(value(19828, "of_tile"), 10, places=3)
        self.assertAlmostEqual(data_sheets.attention_value(sheet, 19828, "of_tile", 64), 5, places=3)
        self.assertAlmostEqual(data_sheets.attention_value(sheet, 1, "peak", 64),
                               1e6 * 32768 * 132 / 989e12)
        self.assertAlmostEqual(value(1, "peak"), 1e6 * 65536 * 132 / 989e12)
        self.assertAlmostEqual(value(0.5, "memory"), 1.675e6)
        self.assertAlmostEqual(value(2, "l2"), 104857600)
        self.assertAlmostEqual(value(15, "ns"), 0.015)

    def test_a_profile_of_attention_from_a_sheet_predicts_every_row(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            rows = [{"backend": "vllm", "attn_dtype": "bfloat16", "kv_dtype": "bfloat16",
                     "num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "window": 0, "batch": 1,
                     "seq_len": length, "kv_len": length, "latency_us": 1}
                    for length in (16, 4096)]
            for op in data_sheets.ATTENTION:
                data_sheets.write_closed_form(folder, "h100_sxm", op, 700,
                                              data_sheets.start_of_fit(op))
                [short, long] = held_out.predicted(BINARY, "h100_sxm", op, rows, folder, folder)
                # No call is shorter than its launch; its cycles are those of the start. A tile of
                # few keys takes about as long again.
                launch = data_sheets.start_of_fit(op)[0] / 1982.8
                self.assertGreater(short[0], launch)
                self.assertLess(short[0], 2.5 * launch)
                self.assertGreater(long[0], short[0])

    def test_tiles_of_prompts_follow_the_kernel_of_the_chip(self):
        # FlashAttention 2 with two blocks on a multiprocessor, with one, and FlashAttention 3.
        tiles = {"a100_sxm": "packs_heads: false tile_rows: 64 slots_per_multiprocessor: 2",
                 "l40s": "packs_heads: false tile_rows: 64 slots_per_multiprocessor: 1",
                 "h100_sxm": "packs_heads: true tile_rows: 128 slots_per_multiprocessor: 1"}
        with tempfile.TemporaryDirectory() as scratch:
            for gpu, chosen in tiles.items():
                data_sheets.write_closed_form(pathlib.Path(scratch), gpu, "context_attention", 400,
                                              data_sheets.start_of_fit("context_attention"))
                text = (pathlib.Path(scratch) / "attention.textproto").read_text()
                self.assertIn(chosen, text)

    def test_a_rank_has_its_part_of_each_product_of_the_other_databases(self):
        with tempfile.TemporaryDirectory() as scratch:
            data = pathlib.Path(scratch) / "aic"
            for folder in ("vidur", "llmservingsim"):
                (pathlib.Path(scratch) / folder).mkdir()
            products = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
            names = ["gpu", "tp", "n_embd", "n_head", "n_kv_head", "ffn", "gated", "num_tokens",
                     *(f"{name}_us" for name in products)]
            with gzip.open(data.parent / "vidur/dense_ops.csv.gz", "wt") as file:
                file.write(f"{','.join(names)}\na30,2,4096,32,8,14336,1,256,10,20,,40\n"
                           "a100,2,4096,32,8,14336,1,256,1,2,3,4\n")
            self.assertEqual(list(data_sheets.measured_by_vidur(data, "a30")),
                             [("256", 3072, 4096, "10"), ("256", 4096, 2048, "20"),
                              ("256", 4096, 7168, "40")])
            profile = "llmservingsim/profile_rtx4090_llama-3.1-8b_dense.csv.gz"
            with gzip.open(data.parent / profile, "wt") as file:
                file.write("tp,layer,tokens,time_us\n2,gate_up_proj,64,7\n2,down_proj,64,8\n"
                           "2,layernorm,64,9\n")
            self.assertEqual(list(data_sheets.measured_by_llmservingsim(data, "rtx4090")),
                             [("64", 14336, 4096, "7"), ("64", 4096, 7168, "8")])

    def test_steps_are_read_from_the_report_of_a_fit(self):
        self.assertEqual([(row["operation"], row["rows"], row["median_pct"], row["bias_pct"])
                          for row in held_out.step_errors("m", FIT_REPORT)],
                         [("decode steps, two.steps", 4482, "0.85", "-0.57")])

    def test_the_simplex_search_finds_a_minimum(self):
        x, y = held_out.minimise(lambda p: (p[0] - 1) ** 2 + 3 * (p[1] + 2) ** 2, [0, 0], 0.5, 120)
        self.assertAlmostEqual(x, 1, places=2)
        self.assertAlmostEqual(y, -2, places=2)

    def test_errors_are_absolute_and_the_bias_is_signed(self):
        row = held_out.errors_of("shapes", "gpu", "gemm", 1,
                                 [(0.9, 0.8, 1.1, 1), (0.8, 0.7, 0.95, 1), (1.1, 1, 1.2, 1)])
        self.assertEqual(row["median_pct"], "10.00")
        self.assertEqual(row["p90_pct"], "20.00")
        self.assertEqual(row["bias_pct"], "-10.00")
        self.assertEqual(row["inside_90_pct"], "66.7")


if __name__ == "__main__":
    unittest.main()
