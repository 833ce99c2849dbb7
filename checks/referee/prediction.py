"""What a simulator says of a recorded run, and the two ways in which it says nothing."""
import dataclasses

METRICS = ("ttft", "tpot", "e2e")  # means over the requests that the recording counts


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Mean latencies in milliseconds.

    TTFT and E2E begin where the recording's begin (`run.side`); TPOT is (E2E - TTFT) over the
    output tokens after the first.
    """
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float
    intervals: dict | None = None  # {metric: (low, high)}: 90 %, in milliseconds
    fitted: tuple = ()  # metrics that a term fitted to this very run moves
    published_wall_s: float | None = None  # of a prediction that somebody else made
    imported: bool = False  # made by somebody else: its CPU time is not measured here
    whole_run: bool = False  # the means include the start that the recording leaves out

    def value(self, metric):
        return getattr(self, f"{metric}_ms")


class NotCovered(Exception):
    """The simulator cannot, or did not, predict the run. The text is the reason."""


class NotInstalled(Exception):
    """The simulator cannot run on this machine. The text says what to type."""
