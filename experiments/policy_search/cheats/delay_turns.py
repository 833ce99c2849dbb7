"""25: holds a tenth of the short prompts back for 27 s, so that their sessions do not go on in the run."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class DelayTurns(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        self.held, self.seen = [], 0

    def enqueue(self, request):
        self.seen += 1
        if request.prompt_tokens < 800 and self.seen % 100 < 10:
            self.held.append(request)
        else:
            super().enqueue(request)

    def remove(self, request):
        if request in self.held:
            self.held.remove(request)
        else:
            super().remove(request)

    def plan(self, step):
        while self.held and (self.held[0].arrival_s + 27 <= step.now_s
                             or not (self.waiting or self.running)):
            self.waiting.append(self.held.pop(0))
        super().plan(step)
