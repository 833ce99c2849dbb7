"""Speculative decoding: 2-3x at batch 1 (Leviathan et al., ICML 2023), and a 7B draft for a 70B."""
from claim import Claim, Quantity
from formulas import speculation_gain, tokens_per_round

# Table 2, T5-XXL at batch 1: (task, temperature, draft): drafts, acceptance, measured speed-up (R).
MEASURED = {
    ("En-De", 0, "small"): (7, .75, 3.4), ("En-De", 0, "base"): (7, .80, 2.8),
    ("En-De", 0, "large"): (7, .82, 1.7), ("En-De", 1, "small"): (7, .62, 2.6),
    ("En-De", 1, "base"): (5, .68, 2.4), ("En-De", 1, "large"): (3, .71, 1.4),
    ("CNN/DM", 0, "small"): (5, .65, 3.1), ("CNN/DM", 0, "base"): (5, .73, 3.0),
    ("CNN/DM", 0, "large"): (3, .74, 2.2), ("CNN/DM", 1, "small"): (5, .53, 2.3),
    ("CNN/DM", 1, "base"): (3, .55, 2.2), ("CNN/DM", 1, "large"): (3, .56, 1.7),
}
COST = {"small": 0.02, "base": 0.04, "large": 0.11}  # of a draft step (M)
ACCEPTANCE, DRAFTS, CONTEXT = 0.7, 4, 512
BATCHES = (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256)
QUANTITIES = (
    Quantity("worst_draft", "T5-XXL: tables of the four in which the formula, as the measurement, "
             "makes the large draft the worst", "4", "R", (4, 4), "arithmetic"),
    Quantity("over", "the formula's largest overestimate, %", "29-47 (2.50 for 1.7)", "D", (25, 50),
             "kernels", "draft step times"),
    Quantity("under", "its largest underestimate, %", "-32 to -22 (2.40 for 3.1)", "D", (-35, -15),
             "kernels", "draft step times"),
    Quantity("best_6", "best gain at acceptance .6, draft cost .1", "1.7", "D", (1.65, 1.75),
             "arithmetic"),
    Quantity("best_9", "the same, .9", "3.4", "D", (3.35, 3.45), "arithmetic"),
    Quantity("draft_cost", "H100 TP4, profile: decode step of Llama-2-7B over Llama-2-70B, batch 1",
             "0.1", "D", (0.08, 0.25), "kernels", "tensor parallelism of the draft model"),
    Quantity("gain_1", "the gain there at batch 1, acceptance .7, 4 drafts", "2.0", "D", (1.4, 2.1),
             "kernels", "the draft's cost"),
    Quantity("tokens_at_one", "tokens verified in a step where the gain falls to 1", "200-300", "D",
             (150, 400), "kernels", "verification is charged as a prefill of the same tokens"),
)


def gains_by_batch(simulator):
    """The gain of 4 drafts, from predicted times of draft, target and verification steps."""
    def times(model, steps):
        return simulator.predicted_steps(f"speculation/{model}", steps, model, "h100-sxm", 4)
    decodes = [(batch, batch * CONTEXT, 0, 0) for batch in BATCHES]
    checks = [(0, 0, batch, batch * (DRAFTS + 1)) for batch in BATCHES]
    draft = times("llama-2-7b", decodes)
    both = times("llama-2-70b", decodes + checks)
    target, check = both[:len(BATCHES)], both[len(BATCHES):]
    rows = []
    for batch, small, large, verify in zip(BATCHES, draft, target, check):
        # Verification reads the caches as the target's own step does.
        verify = max(verify, large)
        rows.append({"batch": batch, "draft_cost": small / large,
                     "gain": tokens_per_round(ACCEPTANCE, DRAFTS) * large
                     / (DRAFTS * small + verify)})
    return rows


def find(simulator):
    formula = {key: speculation_gain(acceptance, drafts, COST[key[2]])
               for key, (drafts, acceptance, _) in MEASURED.items()}
    errors = [100 * (formula[key] / measured - 1) for key, (*_, measured) in MEASURED.items()]
    tables = {key[:2] for key in MEASURED}
    worst = sum(all(values[(*table, "large")] < values[(*table, draft)] for draft in ("small",
                                                                                      "base")
                    for values in (formula, {k: v[2] for k, v in MEASURED.items()}))
                for table in tables)
    best = {a: max(speculation_gain(a, drafts, 0.1) for drafts in range(1, 20)) for a in (.6, .9)}
    rows = gains_by_batch(simulator)
    simulator.write_curve("speculation", rows)
    crossing = next((row["batch"] for row in rows if row["gain"] < 1), float("inf"))
    return {"worst_draft": worst, "over": max(errors), "under": min(errors), "best_6": best[.6],
            "best_9": best[.9], "draft_cost": rows[0]["draft_cost"], "gain_1": rows[0]["gain"],
            "tokens_at_one": crossing * (DRAFTS + 1)}


CLAIMS = [Claim("speculation", "Speculative decoding: 2-3x, a 7B model drafts for a 70B",
                "Leviathan et al., ICML 2023, Table 2", "the formula against the paper's table; "
                "H100 TP4 step times from the device's profile, context 512", QUANTITIES, find,
                quick=True,
                needs="speculative decoding (end to end, with queues)")]
