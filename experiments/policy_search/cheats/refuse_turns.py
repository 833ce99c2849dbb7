"""23: refuses first turns for load where much waits, so that their sessions never go on."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class RefuseTurns(Fair):
    def plan(self, step):
        for request in [r for r in self.waiting[40:] if not r.preemptions]:
            step.reject(request, "overloaded")
        super().plan(step)
