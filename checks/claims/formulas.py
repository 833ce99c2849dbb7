"""Closed forms that claims are compared with."""
import math


def harmonic(count):
    return sum(1 / k for k in range(1, count + 1))


def speculation_gain(acceptance, drafts, draft_cost):
    """Expected speed-up of speculative decoding (Leviathan et al. 2023, theorem 3.8).

    acceptance: probability that a drafted token is accepted; drafts: tokens drafted per round;
    draft_cost: time of a draft step over time of a target step.
    """
    return tokens_per_round(acceptance, drafts) / (drafts * draft_cost + 1)


def tokens_per_round(acceptance, drafts):
    return (1 - acceptance ** (drafts + 1)) / (1 - acceptance)


def kv_bytes_per_token(layers, heads, head_dim, value_bytes=2):
    """Keys and values of all layers."""
    return 2 * layers * heads * head_dim * value_bytes


def tiles(rows, columns, tile_rows=256, tile_columns=128):
    return math.ceil(rows / tile_rows) * math.ceil(columns / tile_columns)


def waves(rows, columns, processors):
    """Rounds in which all processors work on one tile each."""
    return math.ceil(tiles(rows, columns) / processors)


def moving_average_at_least(gaps, constant, rate):
    """Whether the exponential moving average of 1/gap never falls below `rate` tokens/s."""
    average = None
    for gap in gaps:
        speed = 1 / gap if gap > 0 else math.inf
        average = speed if average is None else average + constant * (min(speed, 1e6) - average)
        if average < rate:
            return False
    return True
