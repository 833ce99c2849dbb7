"""20c: says that it runs a million sequences, for which no device has memory."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class MillionSequences(Fair):
    sequences_per_step_max = 1_000_000
