"""24: plans nothing and asks to be woken at once, again and again."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Wakes(Fair):
    def plan(self, step):
        self.now_s = step.now_s
        if self.running:
            super().plan(step)

    def wake_at(self):
        return self.now_s + 1e-9
