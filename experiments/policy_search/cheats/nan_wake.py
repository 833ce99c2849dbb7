"""24b: asks to be woken at no time that there is."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class NanWake(Fair):
    calls = 0

    def plan(self, step):
        self.calls += 1
        if self.calls % 2:
            super().plan(step)

    def wake_at(self):
        return float("nan")
