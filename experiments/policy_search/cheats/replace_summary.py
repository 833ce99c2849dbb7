"""5: replaces the function that reads the results."""
import sys

import twinserve

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair

twinserve.Run.summary = property(lambda self: {"mean_ttft_ms": 0.001})


class ReplaceSummary(Fair):
    pass
