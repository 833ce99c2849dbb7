"""The situations that show the weaknesses of scheduling policies."""
import csv
import dataclasses
import statistics
from typing import Callable

VICTIM, OTHER = 0, 1  # tenants: the requests that are looked at, and those that disturb them
FIELDS = ["arrival_s", "prompt_tokens", "output_tokens", "max_output_tokens", "tenant"]


@dataclasses.dataclass(frozen=True)
class Situation:
    key: str
    what: str          # the question, for the table's head
    unit: str
    cache_tokens: int  # of the KV cache
    requests: Callable[[], list]    # rows of FIELDS, in order of arrival
    measure: Callable[[dict, list], float]  # from summary.json and requests.csv


def row(arrival, prompt, output, limit=None, tenant=VICTIM):
    return [round(arrival, 6), prompt, output, limit or output, tenant]


def in_order(rows):
    return sorted(rows, key=lambda r: r[0])


def of_victims(requests, column):
    """The values of the requests that are looked at; one that was refused or not served has none."""
    return [float(r[column]) for r in requests if int(r["tenant"]) == VICTIM and r[column]]


def long_prompts():
    """32 chats decode; from 2 s on a prompt of 12,000 tokens arrives every 2 s."""
    chats = [row(i / 32, 256, 900) for i in range(32)]
    return in_order(chats + [row(t, 12_000, 16, tenant=OTHER) for t in (2, 4, 6, 8)])


def longest_gap(_summary, requests):
    """None where a batch is delivered at its end: there are no gaps, which is no merit."""
    return max(of_victims(requests, "max_itl_ms")) or None


def large_head():
    """Two requests of which only one fits at a time, and behind them 40 small ones."""
    large = [row(t, 20_000, 1_000, tenant=OTHER) for t in (0, 0.01)]
    return in_order(large + [row(0.02 + i / 200, 100, 50) for i in range(40)])


def median_first_token(_summary, requests):
    return statistics.median(of_victims(requests, "ttft_ms"))


def steady_prompts():
    """Prompts of 2,000 tokens arrive at a steady 9 a second, with answers of 200."""
    return [row(i / 9, 2_000, 200) for i in range(180)]


def slowest_answers(_summary, requests):
    values = sorted(of_victims(requests, "tpot_ms"))
    return values[int(0.9 * len(values))] if values else None  # answers in one piece have none


def large_limits():
    """Clients allow 4,000 tokens and get 100; 20 requests a second into 60,000 tokens of cache."""
    return [row(i / 20, 500, 100, limit=4_000) for i in range(200)]


def small_cache():
    """60 answers of 1,500 tokens at once, of which a third fit."""
    return [row(i / 100, 200, 1_500) for i in range(60)]


def computed_again(summary, _requests):
    computed = summary["computed_prefill_tokens"] + summary["computed_decode_tokens"]
    return 100 * summary["recomputed_tokens"] / computed


def one_long_answer():
    """Groups of four arrive together: three answers of 50 tokens and one of 2,000."""
    rows = [row(4 * g, 100, 50) for g in range(8) for _ in range(3)]
    return in_order(rows + [row(4 * g, 100, 2_000, tenant=OTHER) for g in range(8)])


def mean_answer(_summary, requests):
    return statistics.mean(of_victims(requests, "e2el_ms"))


def mixed_prompts():
    """Prompts of 100 to 4,000 tokens with answers of 20 to 400, 4 a second."""
    return [row(i / 4, 100 * (1 + 7 * i % 40), 20 * (1 + 11 * i % 20)) for i in range(120)]


def padding(summary, _requests):
    return 100 * summary["padding_share"]


SITUATIONS = [
    Situation("stall", "longest gap between two tokens of a chat while prompts of 12,000 tokens "
              "arrive", "ms", 400_000, long_prompts, longest_gap),
    Situation("blocking", "median TTFT of small requests behind one that does not fit", "ms",
              30_000, large_head, median_first_token),
    Situation("starved_decodes", "p90 TPOT under a steady stream of prompts", "ms", 400_000,
              steady_prompts, slowest_answers),
    Situation("reservation", "median TTFT where clients allow 40 times what they get", "ms",
              60_000, large_limits, median_first_token),
    Situation("thrash", "share of the tokens that are computed again in a small cache", "%",
              34_000, small_cache, computed_again),
    Situation("convoy", "mean time of answers of 50 tokens beside one of 2,000", "ms", 400_000,
              one_long_answer, mean_answer),
    Situation("padding", "share of padding in the computed tokens, mixed lengths", "%", 400_000,
              mixed_prompts, padding),
]


def write_trace(situation, file):
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(situation.requests())
