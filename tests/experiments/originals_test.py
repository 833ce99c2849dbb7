#!/usr/bin/env python3
"""Checks the case generator, the reporter and the resumption of checks/originals. No original
scheduler is needed: one written here decides.

Usage: tests/experiments/originals_test.py SOURCE_DIR [TWINSERVE]
"""
import contextlib
import copy
import importlib.machinery
import importlib.metadata
import importlib.util
import io
import json
import pathlib
import re
import sys
import tempfile
import types
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
BINARY = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
sys.path[:0] = [str(SOURCE / "checks/originals"), str(SOURCE / "apps/python/twinserve")]
sys.dont_write_bytecode = True
import differences  # noqa: E402 (its folder comes first)
import draw  # noqa: E402
import releases  # noqa: E402
from engines import absent, environment  # noqa: E402

loader = importlib.machinery.SourceFileLoader("originals", str(SOURCE / "checks/originals/run"))
originals = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("originals", loader))
sys.modules["originals"] = originals
loader.exec_module(originals)

ALL_FIELDS = {*draw.OPTIONAL, "num_speculative_tokens"}


def vllm_cases(count, fields=frozenset(ALL_FIELDS), seed=1):
    system = originals.SYSTEMS["vllm"]
    system.follow("0.33.0")
    return [draw.draw(system, f"case-{n}", seed, n, fields) for n in range(count)]


def sglang_cases(count, seed=1):
    system = originals.SYSTEMS["sglang"]
    system.follow("0.5.23")
    return [draw.draw(system, f"case-{n}", seed, n, frozenset()) for n in range(count)]


def step(it, work, **fields):
    return {"it": it, "work": work, "preempted": [], "free": 4, "finished": [],
            "free_after": 4} | fields


class DrawTest(unittest.TestCase):
    def test_a_case_depends_on_its_seed_and_number_only(self):
        self.assertEqual(vllm_cases(5), vllm_cases(9)[:5])
        self.assertNotEqual(vllm_cases(5), vllm_cases(5, seed=2))

    def test_every_request_fits_the_model_and_the_pool(self):
        for case in vllm_cases(500):
            pool = case["kv"]["blocks"] * case["kv"]["block_size"]
            for entry in case["requests"]:
                known = entry["prompt"] + entry["max_new"]
                self.assertLessEqual(known, case["params"]["max_model_len"])
                self.assertLessEqual(known, pool)
                self.assertLessEqual(1, entry["output"])
                self.assertLessEqual(entry["output"], entry["max_new"])

    def test_every_request_of_sglang_fits_the_pool_and_has_its_tokens(self):
        for case in sglang_cases(500):
            page, params = case["kv"]["block_size"], case["params"]
            self.assertEqual(case["policy"], "sglang")
            for entry in case["requests"]:
                pages = -(-(entry["prompt"] + entry["max_new"]) // page) + 1
                self.assertLess(pages, case["kv"]["blocks"])
                self.assertEqual("tokens" in entry, params["radix_cache"])
                self.assertEqual("priority" in entry, "priority" in params)
                if entry.get("ignore_eos"):
                    self.assertEqual(entry["output"], entry["max_new"])
            if params["chunked_prefill_size"] is not None:
                self.assertEqual(params["chunked_prefill_size"] % page, 0)
                self.assertGreater(params["chunked_prefill_size"], 0)

    def test_every_prompt_is_schedulable_where_chunks_are_off(self):
        for case in vllm_cases(500):
            params = case["params"]
            if not params["enable_chunked_prefill"]:
                self.assertGreaterEqual(params["max_num_batched_tokens"], params["max_model_len"])
                self.assertGreaterEqual(params.get("max_num_scheduled_tokens", 99),
                                        params["max_model_len"])

    def test_a_request_that_is_verified_fits_every_budget(self):
        for case in vllm_cases(500):
            params = case["params"]
            for budget in ("max_num_batched_tokens", "max_num_scheduled_tokens"):
                if params.get("num_speculative_tokens") and budget in params:
                    self.assertGreater(params[budget], params["num_speculative_tokens"])

    def test_tokens_are_as_many_as_the_prompt_and_some_are_shared(self):
        shared = 0
        for case in vllm_cases(200):
            seen = set()
            for entry in case["requests"] if case["params"]["enable_prefix_caching"] else []:
                self.assertEqual(len(entry["tokens"]), entry["prompt"])
                start = tuple(entry["tokens"][:2])
                shared += start in seen
                seen.add(start)
        self.assertGreater(shared, 50)

    def test_a_release_is_not_asked_about_parameters_that_it_lacks(self):
        for case in vllm_cases(200, fields={"watermark"}):
            self.assertFalse(case["params"].keys() & (draw.OPTIONAL.keys() - {
                "watermark", "scheduler_reserve_full_isl"}))
            self.assertFalse(case["params"]["scheduler_reserve_full_isl"])
            self.assertNotIn("num_speculative_tokens", case["params"])


class DifferencesTest(unittest.TestCase):
    def test_a_step_is_written_as_in_the_policy_notes(self):
        text = differences.notation(step(3, [[0, "D", 1], [1, "P", 7]], preempted=[2], finished=[0],
                                         free_after=6))
        self.assertEqual(text, "it3: 0:D1 1:P7 | pre=[2] | free=4 | fin=[0] | freeA=6")

    def test_equal_steps_have_no_difference_and_fields_that_the_original_lacks_are_ignored(self):
        ours = [step(1, [[0, "P", 3]], rejected=[], cached=0)]
        self.assertIsNone(differences.first_difference([step(1, [[0, "P", 3]])], ours))

    def test_the_first_step_that_differs_is_found_and_its_kind_named(self):
        same, theirs = step(1, [[0, "P", 3]]), step(2, [[0, "D", 1], [1, "P", 2]])
        for changed, kind in (
                ([[0, "D", 1]], "work: twinserve leaves a request out"),
                ([[0, "D", 1], [1, "P", 2], [2, "P", 1]],
                 "work: twinserve schedules one request more"),
                ([[0, "D", 1], [1, "P", 1]], "work: another number of tokens"),
                ([[0, "D", 1], [1, "D", 2]], "work: another phase"),
                ([[1, "P", 2], [0, "D", 1]], "work: another order")):
            found = differences.first_difference([same, theirs], [same, step(2, changed)])
            self.assertEqual(found, (kind, theirs, step(2, changed)))
        found = differences.first_difference([same, theirs], [same, theirs | {"free": 3}])
        self.assertEqual(found[0], "free")
        self.assertEqual(differences.first_difference([same, theirs], [same])[0],
                         "steps: the original goes on")
        self.assertEqual(differences.first_difference([same], [same, theirs])[0],
                         "steps: twinserve goes on")
        self.assertEqual(differences.first_difference([same], [same | {"rejected": [1]}])[0],
                         "rejected")

    def test_a_kind_is_reported_once_with_its_smallest_case(self):
        found = differences.Differences()
        for name, count in (("large", 9), ("small", 3)):
            case = {"case": name, "params": {"async_scheduling": True},
                    "requests": [{}] * count, "steps": [step(1, [[0, "P", 3]])]}
            found.add(case, [step(1, [[0, "P", 2]])])
        found.add(case, copy.deepcopy(case["steps"]))
        found.add(case, "max_num_seqs: is 12, must be 3")
        found.add({"case": "bad", "params": {}, "requests": [], "error": "KeyError"}, None)
        text = "\n".join(found.report())
        self.assertTrue(text.startswith("5 cases, 1 equal, 4 differ\n"))
        self.assertIn("work: another number of tokens: 2 cases, all with async_scheduling", text)
        self.assertIn("smallest  small, 3 requests", text)
        self.assertIn("original  it1: 0:P3 | free=4 | freeA=4", text)
        self.assertIn("error of twinserve: max_num_seqs: is N, must be N: 1 cases", text)
        self.assertIn("error of the original: KeyError: 1 cases", text)


class Place:
    """An installed original of one that decides nothing in `answers` cases, and then ends."""

    def __init__(self, answers, folder):
        self.version, self.folder, self.answers, self.asked = "9.9", folder, answers, []

    def worker(self, _):
        lines = iter([json.dumps(sorted(ALL_FIELDS))] + ['{"steps": []}'] * self.answers)
        return types.SimpleNamespace(
            stdin=types.SimpleNamespace(write=self.asked.append, flush=lambda: None),
            stdout=types.SimpleNamespace(readline=lambda: next(lines, "")),
            kill=lambda: None, wait=lambda: None)


class RunTest(unittest.TestCase):
    def decide(self, place, file, cases):
        system = originals.SYSTEMS["vllm"]
        system.follow("0.33.0")
        arguments = types.SimpleNamespace(cases=cases, seed=1)
        with contextlib.redirect_stderr(io.StringIO()):
            originals.decide_by_original(system, place, [], file, arguments)

    def test_an_interrupted_comparison_goes_on_with_the_next_case(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            whole, parts = folder / "whole.ndjson", folder / "parts.ndjson"
            self.decide(Place(6, folder), whole, 6)
            with self.assertRaises(environment.InstallError):
                self.decide(Place(3, folder), parts, 6)
            with parts.open("a") as file:
                file.write('{"case": "cut in the mi')
            later = Place(3, folder)
            self.decide(later, parts, 6)
            self.assertEqual(len(later.asked), 3)
            self.assertEqual(parts.read_bytes(), whole.read_bytes())

    @unittest.skipUnless(BINARY, "no twinserve given")
    def test_twinserve_decides_cases_of_sglang(self):
        with tempfile.TemporaryDirectory() as name:
            decided = originals.decide_by_twinserve(BINARY, sglang_cases(30), pathlib.Path(name))
        self.assertEqual([steps for steps in decided if isinstance(steps, str)], [])

    @unittest.skipUnless(BINARY, "no twinserve given")
    def test_twinserve_decides_and_its_errors_are_results(self):
        cases = vllm_cases(12)
        cases[4]["params"]["max_num_seqs"] = 0
        with tempfile.TemporaryDirectory() as name:
            decided = originals.decide_by_twinserve(BINARY, cases, pathlib.Path(name))
        self.assertEqual([isinstance(steps, str) for steps in decided],
                         [number == 4 for number in range(12)])
        self.assertIn("max_num_seqs", decided[4])
        self.assertEqual(decided[0][0]["it"], cases[0]["requests"][0]["step"])

    def test_an_unknown_release_is_compared_with_the_newest_policy(self):
        system = originals.SYSTEMS["vllm"]
        self.assertTrue(system.follow("0.15.1"))
        self.assertEqual(system.policy, "vllm_v1")
        self.assertFalse(system.follow("99.0"))
        self.assertEqual(system.policy, "vllm_v1_033")

    def test_arguments_are_checked_in_one_line(self):
        for values in (["orca"], ["vllm", "../x"], ["vllm", "--cases", "0"]):
            text = io.StringIO()
            with contextlib.redirect_stderr(text), self.assertRaises(SystemExit) as raised:
                originals.main(values)
            self.assertEqual(raised.exception.code, 2)
            self.assertIn("error:", text.getvalue().splitlines()[-1])


def decided(name, requests, steps, **params):
    return {"case": name, "params": params, "requests": [{}] * requests, "steps": steps}


class ReleasesTest(unittest.TestCase):
    def test_the_newest_release_is_the_first_that_pip_names(self):
        text = "WARNING: experimental\nvllm (0.34.0)\nAvailable versions: 0.34.0, 0.33.0, 0.9.2\n"
        self.assertEqual(releases.newest(text), "0.34.0")
        self.assertIsNone(releases.newest("ERROR: none"))
        self.assertEqual(sorted(["0.10.1", "0.9.2", "0.33.0"], key=releases.order),
                         ["0.9.2", "0.10.1", "0.33.0"])

    def test_new_gone_and_changed_settings_are_named_with_their_defaults(self):
        before = {"CacheConfig": {"block_size": "16", "swap_space": "4"}}
        after = {"CacheConfig": {"block_size": "32"}, "SchedulerConfig": {"watermark": "0.0"}}
        self.assertEqual(list(releases.changed_settings(before, after)),
                         ["CacheConfig.block_size: 16 -> 32", "CacheConfig.swap_space: gone, was 4",
                          "SchedulerConfig.watermark: new, 0.0"])
        self.assertEqual(list(releases.changed_settings(after, after)), [])

    def test_a_recorded_case_is_asked_with_what_a_release_has(self):
        case = {"case": "a", "requests": [{"id": 0}], "steps": [1],
                "params": {"max_num_seqs": 2, "watermark": 0.0, "pipeline_parallel_size": 1,
                           "scheduler_reserve_full_isl": True}}
        asked = releases.asked_of(case, {"watermark"})
        self.assertEqual(asked["params"], {"max_num_seqs": 2, "watermark": 0.0,
                                           "scheduler_reserve_full_isl": False})
        self.assertNotIn("steps", asked)
        self.assertEqual(releases.asked_of(case, ALL_FIELDS)["params"],
                         {"max_num_seqs": 2, "watermark": 0.0, "scheduler_reserve_full_isl": True})
        for changed in ({"watermark": 0.1}, {"pipeline_parallel_size": 2},
                        {"num_speculative_tokens": 3}):
            other = case | {"params": case["params"] | changed}
            self.assertIsNone(releases.asked_of(other, set()))
        cancelled = case | {"requests": [{"id": 0, "cancel": 2}]}
        self.assertIsNone(releases.asked_of(cancelled, ALL_FIELDS))

    def test_the_smallest_case_has_the_fewest_requests_and_then_steps(self):
        cases = [decided("a", 3, [1, 2]), decided("b", 2, [1, 2, 3]), decided("c", 2, [1])]
        self.assertEqual(releases.smallest(cases)["case"], "c")
        self.assertIsNone(releases.smallest([]))

    def test_the_best_rules_are_named_with_the_smallest_case_that_they_miss(self):
        same, other = [step(1, [[0, "P", 3]])], [step(1, [[0, "P", 2]])]
        found = [releases.Matches("v0_15_1"), releases.Matches("v0_33_0")]
        for kind, name, requests, ours in (("recorded", "a", 5, (same, same)),
                                           ("random", "b", 4, (other, other)),
                                           ("random", "c", 3, (other, other)),
                                           ("random", "d", 2, (other, same)),
                                           ("random", "e", 9, ("refused", other))):
            for matches, steps in zip(found, ours):
                matches.add(kind, decided(name, requests, same), steps)
        self.assertEqual(releases.best(found).variant, "v0_33_0")
        text = "\n".join(releases.report(found, ["recorded", "random"]))
        self.assertIn("v0_15_1            1 / 1            0 / 4", text)
        self.assertIn("v0_33_0            1 / 1            1 / 4", text)
        self.assertIn("that the rules v0_33_0 decide otherwise: c, 3 requests\n"
                      "  original  it1: 0:P3 | free=4 | freeA=4", text)
        rows = list(releases.table({"0.34.0": found}, ["recorded", "random"],
                                   ["v0_15_1", "v0_33_0"]))
        self.assertEqual(rows[-1], "| 0.34.0 | 1 + 4 | 1 | **2** |")

    def test_rules_that_decide_all_cases_have_no_smallest_one(self):
        matches = releases.Matches("v0_33_0")
        matches.add("random", decided("a", 1, [step(1, [])]), [step(1, [])])
        self.assertEqual(list(releases.report([matches], ["random"]))[-1],
                         "all cases are decided by the rules v0_33_0")

    def test_the_variants_are_the_releases_of_the_policy(self):
        text = (SOURCE / "config/policy.proto").read_text()
        body = text[text.index("enum Release"):]
        names = set(re.findall(r"(v\d+_\d+_\d+) =", body[:body.index("}")]))
        self.assertEqual(names, set(originals.SYSTEMS["vllm"].variants))


class EnvironmentTest(unittest.TestCase):
    def test_a_failed_import_tells_what_is_replaced(self):
        system = types.SimpleNamespace(package="vllm", decides=["v1"])
        file = '  File "/b/vllm-1/packages/vllm/{}", line 3, in <module>\n'
        missing = "ModuleNotFoundError: No module named '{}'"
        self.assertEqual(environment.replaceable(missing.format("tqdm.auto"), system, []), "tqdm")
        self.assertIsNone(environment.replaceable(missing.format("tqdm"), system, ["tqdm"]))
        self.assertEqual(environment.replaceable(missing.format("vllm._C"), system, []), "vllm._C")
        text = file.format("v1/core/x.py") + file.format("ir/op.py") + "ValueError: no values"
        self.assertEqual(environment.replaceable(text, system, []), "vllm.ir")
        self.assertIsNone(environment.replaceable(text, system, ["vllm.ir"]))
        text = file.format("ir/op.py") + file.format("v1/core/x.py") + "ValueError: no values"
        self.assertIsNone(environment.replaceable(text, system, []))

    def test_an_absent_package_has_a_version_and_unpacks_to_what_is_asked_for(self):
        absent.install(["versioned_package"])
        self.assertEqual(importlib.metadata.version("versioned-package"), absent.VERSION)
        from versioned_package import schema
        first, second = schema().split("->")
        self.assertIsInstance(first, absent.Absent)
        self.assertIsInstance(second, absent.Absent)
        self.assertEqual(list(schema()), [])

    def test_a_part_of_a_package_is_replaced_although_it_is_installed(self):
        absent.install(["email.no_such_part"])
        from email import message
        from email.no_such_part.deeper import anything
        self.assertIsInstance(anything, absent.Absent)
        self.assertTrue(hasattr(message, "Message"))

    def test_a_failed_pip_is_explained_in_one_line(self):
        unknown = "ERROR: Could not find a version that satisfies the requirement vllm==99 " \
                  "(from versions: 0.1, 0.2, 0.3)"
        self.assertEqual(environment.pip_error("vllm==99", unknown),
                         "PyPI has no vllm==99 for this Python; the newest are 0.3, 0.2, 0.1")
        offline = "WARNING: Retrying (Retry(total=0)) after connection broken\n" \
                  "ERROR: Could not find a version (from versions: none)"
        self.assertEqual(environment.pip_error("vllm==0.33.0", offline),
                         "vllm==0.33.0: PyPI cannot be reached; connect to the network and run "
                         "this again")

    def test_a_package_that_is_absent_can_be_subclassed_decorated_with_and_annotated_with(self):
        absent.install(["no_such_package"])
        from no_such_package.inner import Base, decorate

        @decorate(option=1)
        class Derived(Base, list):
            def size(self: Base) -> Base[int] | None:
                return len(self)

        self.assertEqual(Derived([1, 2]).size(), 2)
        with self.assertRaises(ModuleNotFoundError):
            import another_absent_package  # noqa: F401


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
