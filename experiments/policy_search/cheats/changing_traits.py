"""Promises something else each time it is loaded."""
import os
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class ChangingTraits(Fair):
    sequences_per_step_max = 100 + int.from_bytes(os.urandom(1), "little") // 2
