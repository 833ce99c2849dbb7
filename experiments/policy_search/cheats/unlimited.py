"""13: computes any number of tokens in a step, for which no memory was planned."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Unlimited(Fair):
    tokens_per_step_max = 0
    sequences_per_step_max = 0
