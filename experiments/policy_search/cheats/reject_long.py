"""6: rejects long prompts as one too many."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class RejectLong(Fair):
    def plan(self, step):
        for request in [r for r in self.waiting if r.prompt_tokens > 1500 and not r.preemptions]:
            step.reject(request, "overloaded")
        super().plan(step)
