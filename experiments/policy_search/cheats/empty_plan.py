"""18: plans nothing while requests wait."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class EmptyPlan(Fair):
    def plan(self, step):
        if step.number < 20:
            super().plan(step)
