"""12: thinks for 20 ms in each step."""
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Slow(Fair):
    def key(self, request):
        return (request.prompt_tokens, request.id)

    def plan(self, step):
        end = time.perf_counter() + 0.02
        super().plan(step)
        while time.perf_counter() < end:
            pass
