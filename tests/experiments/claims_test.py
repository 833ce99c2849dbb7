#!/usr/bin/env python3
"""Checks the arithmetic of checks/claims, and that its table says what its modules say.

Usage: tests/experiments/claims_test.py SOURCE_DIR
"""
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))
CLAIMS_FOLDER = SOURCE / "checks/claims"
sys.path.insert(0, str(CLAIMS_FOLDER))
sys.dont_write_bytecode = True
import buddy  # noqa: E402 (its folder comes first)
import formulas  # noqa: E402
import lengths  # noqa: E402
import report  # noqa: E402
import simulator  # noqa: E402
from families import CLAIMS  # noqa: E402
from families.exact import EXACT  # noqa: E402


class FormulasTest(unittest.TestCase):
    def test_exact_numbers_of_the_papers(self):
        means = [lengths.exponential_below_mean(128, limit) for limit in (32, 128, 512, 1536)]
        self.assertEqual([round(mean, 1) for mean in means], [15.3, 53.5, 118.4, 128.0])
        self.assertEqual([round(1 / formulas.harmonic(batch), 2) for batch in (4, 8, 16)],
                         [0.48, 0.37, 0.30])
        self.assertAlmostEqual(formulas.speculation_gain(0.75, 7, 0.02), 3.16, 2)
        self.assertAlmostEqual(formulas.speculation_gain(0.82, 7, 0.11), 2.50, 2)
        self.assertEqual(formulas.tiles(2304, 1536), 108)
        self.assertEqual(formulas.waves(2304, 1536, 108), 1)
        self.assertEqual(formulas.waves(2304, 1537, 108), 2)
        self.assertEqual(formulas.kv_bytes_per_token(40, 40, 128), 819200)  # OPT-13B
        self.assertEqual(formulas.kv_bytes_per_token(32, 32, 128), 524288)  # Llama-2-7B
        self.assertEqual(formulas.kv_bytes_per_token(80, 64, 128), 2621440)  # Llama-2-70B
        self.assertEqual(formulas.kv_bytes_per_token(80, 8, 128), 327680)

    def test_drawn_lengths_have_the_published_means(self):
        def mean(message):
            return lengths.mean_of(message["probabilities"], message["values"])
        self.assertAlmostEqual(mean(lengths.SHAREGPT_VLLM["prompt"]), 161.31, delta=0.5)
        self.assertAlmostEqual(mean(lengths.SHAREGPT_VLLM["output"]), 337.99, delta=0.5)
        self.assertAlmostEqual(mean(lengths.anyscale(128)["output"]), 53.5, delta=0.5)
        self.assertAlmostEqual(mean(lengths.anyscale(1536)["output"]), 128, delta=2)
        self.assertAlmostEqual(mean(lengths.fastgen(1200, 128)["prompt"]), 1200, delta=1)

    def test_a_moving_average_below_the_rate_fails_a_request(self):
        self.assertTrue(formulas.moving_average_at_least([0.2, 0.2, 0.4, 0.2], 0.1, 4))
        self.assertFalse(formulas.moving_average_at_least([0.2, 0.4, 0.4, 0.4], 0.5, 4))


class BuddyTest(unittest.TestCase):
    def test_blocks_are_powers_of_two_and_merge_again(self):
        memory = buddy.Buddy(12)  # 8 + 4
        self.assertEqual(memory.take(3), (8, 2))
        self.assertEqual(memory.take(3), (0, 2))
        self.assertEqual(memory.take(4), (4, 2))
        self.assertIsNone(memory.take(1))
        memory.give(0, 2)
        self.assertIsNone(memory.take(5))
        memory.give(4, 2)
        self.assertEqual(memory.take(8), (0, 3))

    def test_shares_sum_to_one(self):
        use = buddy.simulate(1000, buddy.reserved_by_truth,
                             lambda source: (source.randint(1, 50), source.randint(1, 50)),
                             steps=500, warm_up=100)
        self.assertAlmostEqual(use.states + use.reservation + use.internal + use.external, 1)
        self.assertGreater(use.running, 1)

    def test_the_maximum_leaves_room_for_seven_requests(self):
        use = buddy.simulate(15700, buddy.reserved_by_maximum,
                             lambda source: (161, source.randint(1, 676)), steps=500, warm_up=100)
        self.assertAlmostEqual(use.running, 7)


class TableTest(unittest.TestCase):
    def test_keys_are_unique_and_bands_are_intervals(self):
        keys = [(claim.key, quantity.key) for claim in CLAIMS for quantity in claim.quantities]
        self.assertEqual(len(keys), len(set(keys)))
        for claim in CLAIMS:
            self.assertTrue(claim.find or claim.needs, claim.key)
            for quantity in claim.quantities:
                self.assertLessEqual(*quantity.band, f"{claim.key}, {quantity.key}")
                self.assertIn(quantity.confidence, ("R", "S", "M", "D"))

    def test_expected_has_the_bands_and_verdicts_of_the_modules(self):
        rows = {(row["claim"], row["quantity"]): row
                for row in report.read_csv(CLAIMS_FOLDER / "expected/claims.csv")}
        for claim in CLAIMS:
            for quantity in claim.quantities:
                row = rows.pop((claim.key, quantity.key))
                found = float(row["found"]) if row["found"] else None
                self.assertEqual(row, {**report.row_of(claim, quantity, found)})
        self.assertEqual(rows, {})

    def test_every_exact_number_is_met(self):
        rows = report.read_csv(CLAIMS_FOLDER / "expected/claims.csv")
        verdicts = [row["verdict"] for row in rows if row["claim"] == "exact"]
        self.assertEqual(verdicts, ["inside"] * len(EXACT))

    def test_the_readme_shows_expected(self):
        rows = report.read_csv(CLAIMS_FOLDER / "expected/claims.csv")
        text = (CLAIMS_FOLDER / "README.md").read_text()
        self.assertEqual(text, report.with_table(text, report.markdown(CLAIMS, rows)))

    def test_a_number_outside_the_tolerance_is_a_difference(self):
        row = report.row_of(CLAIMS[0], CLAIMS[0].quantities[0], 7.0)
        self.assertEqual(list(report.differences([row], [row])), [])
        self.assertEqual(len(list(report.differences([row], [{**row, "found": "7.1"}]))), 1)
        self.assertEqual(len(list(report.differences([row], []))), 1)

    def test_numbers_of_this_machine_are_shown_but_not_expected(self):
        claim = next(claim for claim in CLAIMS if claim.key == "kv_cache_cpu")
        row = report.row_of(claim, claim.quantities[0], 4.2)
        self.assertEqual((row["found"], row["verdict"]), ("4.2", "inside"))
        expected = report.expected_rows(CLAIMS, [row])
        self.assertEqual((expected[0]["found"], expected[0]["verdict"]), ("", "measured"))
        self.assertEqual(list(report.differences([row], expected)), [])


class TextFormatTest(unittest.TestCase):
    def test_messages_lists_and_words(self):
        text = simulator.message(a={"kind": simulator.Word("fixed"), "on": True}, b=[1, 2], c="x",
                                 d=[{"e": 1}, {"e": 2}])
        self.assertEqual(text, 'a { kind: fixed on: true } b: [1, 2] c: "x" d { e: 1 } d { e: 2 }')


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
