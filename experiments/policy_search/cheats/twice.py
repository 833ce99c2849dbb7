"""18: schedules a request twice in a step."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Twice(Fair):
    def plan(self, step):
        super().plan(step)
        for request in self.running[:1]:
            if step.tokens_left and request.left:
                step.schedule(request, 1)
