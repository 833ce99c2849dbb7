"""20b: promises few tokens and sequences in a step, which once gave it a larger cache."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class FewSequences(Fair):
    tokens_per_step_max = 512
    sequences_per_step_max = 64
