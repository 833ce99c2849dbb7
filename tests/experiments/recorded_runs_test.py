#!/usr/bin/env python3
"""Checks the readers of checks/fidelity on small data sets written here, and its arithmetic.

Usage: tests/experiments/recorded_runs_test.py SOURCE_DIR
"""
import gzip
import json
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "checks/fidelity"))
sys.dont_write_bytecode = True
import recorded_runs  # noqa: E402 (its folder comes first)
import simulated_runs  # noqa: E402

RESIDENCY_RUNS = "run,max_in_flight\nslow.vanilla,13\nslow.patched,13\nfast,256\n"
RESIDENCY = """req,tenant,in_tokens,out_tokens,intended_arrival_us,send_us,first_us,last_us,status
1,b,50,3,900,500,50500,90500,
0,a,40,2,1000,0,60000,80000,ok
2,a,40,2,1100,700,,,timeout
"""
BLIS_RUNS = """run,timestamp,model,tp,max_num_seqs,max_num_batched_tokens,max_model_len,kv_blocks,\
system_prompt_len,question_len,output_len,n_failed
one,t,meta-llama/Llama-2-7b-hf,1,128,2048,4096,7462,100,466,247,1
"""
BLIS = """req,arrival_us,in_tokens,out_tokens,ttft_us,e2e_us,error
0,0,591,140,130224,1943702,0
1,61000000,0,0,0,0,1
"""
LSS = """req,in_tokens,out_tokens,dataset_arrival_ns,arrival_s,queued_s,scheduled_s,first_token_s,\
last_token_s
bench-0,20,5,0,0.0,0.5,0.5,0.75,1.75
"""
LSS_SERIES = "t,running,waiting,kv_cache_pct\n1.0,2,0,10.0\n2.0,4,2,30.0\n"
LSS_META = {"model": "meta-llama/Llama-3.1-8B", "engine_kwargs": {
    "data_parallel_size": 1, "tensor_parallel_size": 1, "max_num_seqs": 128,
    "max_num_batched_tokens": 2048, "max_model_len": None}}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


class ReadersTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.data = pathlib.Path(self.scratch.name)

    def read(self):
        return {run.name: run for run in recorded_runs.read_all(str(self.data))}

    def test_residency_by_send_time_or_in_a_closed_loop(self):
        folder = self.data / "residency_h100_qwen14b"
        write(folder / "runs.csv", RESIDENCY_RUNS)
        for name in ("slow.vanilla", "fast"):
            write(folder / f"requests/{name}.csv.gz", RESIDENCY)
        runs = self.read()
        self.assertEqual(set(runs), {"slow.vanilla", "fast"})
        slow = runs["slow.vanilla"]
        self.assertEqual([r.prompt for r in slow.requests], [40, 50])  # sorted, without the failure
        self.assertAlmostEqual(slow.requests[1].arrival, 500e-6)
        self.assertAlmostEqual(slow.requests[1].ttft, 50e-3)
        self.assertEqual((slow.cap, slow.saturated), (0, False))
        self.assertEqual([r.prompt for r in runs["fast"].requests], [50, 40])  # as intended
        self.assertEqual((runs["fast"].cap, runs["fast"].saturated), (256, True))

    def test_blis16_outputs_are_the_runs_and_failures_stay(self):
        folder = self.data / "blis16_requests"
        write(folder / "runs.csv", BLIS_RUNS)
        write(folder / "requests/one.csv.gz", BLIS)
        run = self.read()["one"]
        self.assertEqual([(r.prompt, r.output) for r in run.requests], [(591, 247), (566, 247)])
        self.assertIsNone(run.requests[1].e2e)
        self.assertEqual((run.pool, run.skip_s, run.blocks), (100, 60, 7462))

    def test_lss_times_are_the_engines(self):
        folder = self.data / "lss_vllm_bench/RTXPRO6000"
        write(folder / "Llama-3.1-8B.requests.csv", LSS)
        write(folder / "Llama-3.1-8B.timeseries.csv", LSS_SERIES)
        write(folder / "Llama-3.1-8B.meta.json", json.dumps(LSS_META))
        run = self.read()["RTXPRO6000/Llama-3.1-8B"]
        self.assertEqual((run.side, run.gpu), ("engine", "rtx-pro-6000-server"))
        self.assertEqual((run.requests[0].ttft, run.requests[0].e2e), (0.25, 1.25))
        self.assertEqual(run.load["running_mean"], 3)
        self.assertAlmostEqual(run.load["kv_share_mean"], 0.2)

    def test_other_gpus_and_models_go_by_their_names_and_load_may_be_missing(self):
        folder = self.data / "lss_vllm_bench/A40"
        write(folder / "Some.requests.csv.gz", LSS)
        write(folder / "Some.meta.json", json.dumps({**LSS_META, "model": "Qwen/Qwen2-7B"}))
        run = self.read()["A40/Some"]
        self.assertEqual((run.gpu, run.model, run.load), ("A40", "Qwen/Qwen2-7B", {}))
        self.assertNotIn("max_model_len", run.policy)  # the model's own

    def test_a_run_without_configuration_is_left_out(self):
        write(self.data / "lss_vllm_bench/A40/Some.requests.csv", LSS)
        self.assertEqual(self.read(), {})

    def test_the_servers_version_is_the_recorded_one(self):
        folder = self.data / "residency_h100_qwen14b"
        write(folder / "runs.csv", "run,max_in_flight,server\na,1,patched vLLM 0.20.1\nb,1,\n")
        write(folder / "requests/a.csv", RESIDENCY)
        write(folder / "requests/b.csv.gz", RESIDENCY)
        runs = self.read()
        self.assertEqual((runs["a"].server, runs["b"].server), ("vllm-0.20.1", "vllm-0.23.0"))

    def test_gaps_are_told_with_their_file(self):
        folder = self.data / "residency_h100_qwen14b"
        with self.assertRaisesRegex(recorded_runs.DataError, "runs.csv: cannot be read"):
            folder.mkdir()
            self.read()
        write(folder / "runs.csv", RESIDENCY_RUNS)
        write(folder / "requests/fast.csv", RESIDENCY.replace("in_tokens", "input"))
        with self.assertRaisesRegex(recorded_runs.DataError, "fast.csv: column 'in_tokens' is miss"):
            self.read()
        write(folder / "requests/fast.csv", RESIDENCY.replace(",40,2", ",many,2"))
        with self.assertRaisesRegex(recorded_runs.DataError, "in_tokens: found 'many'; allowed: a n"):
            self.read()


class ArithmeticTest(unittest.TestCase):
    # Two requests: TTFT 1 and 3 s; (5 - 1) / 4 and (3 - 3) / 0; from 0 to 13 s.
    def test_measures(self):
        found = simulated_runs.measures([(0.0, 1.0, 5.0, 5), (10.0, 3.0, 3.0, 1)])
        self.assertEqual(found["ttft_mean"], 2)
        self.assertEqual(found["ttft_p90"], 2.8)
        self.assertEqual(found["tpot_mean"], 1)
        self.assertAlmostEqual(found["throughput"], 2 / 13)

    def test_the_split_names_fit_runs(self):
        split = simulated_runs.read_split()
        self.assertTrue(all(terms and metrics for _, terms, metrics in split))
        run = recorded_runs.RecordedRun("residency_h100_qwen14b", "sweep_rate.agg_2rps.vanilla",
                                        "", "", "", [], "", 1)
        self.assertEqual(simulated_runs.part_of(run, "tpot_mean", split), "fit")
        run.name = "sweep_rate.agg_8rps.vanilla"
        self.assertEqual(simulated_runs.part_of(run, "tpot_mean", split), "judge")
        # Only the boundary was fitted to this one.
        run.name = "sweep_rate.agg_2rps.patched"
        self.assertEqual(simulated_runs.part_of(run, "ttft_p90", split), "fit")
        self.assertEqual(simulated_runs.part_of(run, "tpot_mean", split), "judge")

    def test_the_experiment_says_what_was_recorded(self):
        run = recorded_runs.RecordedRun("s", "n", "vllm-0.15.1", "m", "g", [], "max_num_seqs: 7",
                                        5, tensor=2, cap=3, pool=4)
        text = simulated_runs.experiment(run, "profile {}", "t", {}, seed=9)
        for part in ('server: "vllm-0.15.1"', "blocks_override: 5", "max_in_flight: 3",
                     "prompt_pool: 4", "tensor_parallel: 2", "draw_seed: 9"):
            self.assertIn(part, text)
        formula = simulated_runs.experiment(run, "profile {}", "t", {"formula": True})
        self.assertNotIn("blocks_override", formula)


if __name__ == "__main__":
    unittest.main()
