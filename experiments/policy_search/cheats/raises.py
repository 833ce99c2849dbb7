"""18: raises in its 100th step."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Raises(Fair):
    def plan(self, step):
        if step.number > 20:
            raise KeyError("the 21st step")
        super().plan(step)
