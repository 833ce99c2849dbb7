"""18: loops for ever."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Loops(Fair):
    def plan(self, step):
        while step.number > 20:
            pass
        super().plan(step)
