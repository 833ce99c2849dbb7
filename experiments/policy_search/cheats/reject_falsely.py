"""7: rejects long prompts as too large for the cache, which they are not."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class RejectFalsely(Fair):
    def plan(self, step):
        for request in [r for r in self.waiting if r.prompt_tokens > 1500 and not r.preemptions]:
            step.reject(request, "too_large_for_cache")
        super().plan(step)
