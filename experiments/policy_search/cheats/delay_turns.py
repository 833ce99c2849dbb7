"""25: answers a part of the first turns late, so that their sessions do not go on before the run ends."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class DelayTurns(Fair):
    def key(self, request):
        late = request.prompt_tokens > 60 and request.arrival_s + 25 > self.now_s
        return (late, request.prompt_tokens, request.id)

    def plan(self, step):
        self.now_s = step.now_s
        super().plan(step)
