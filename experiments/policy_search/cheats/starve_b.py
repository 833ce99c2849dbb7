"""8b: long prompts wait until nothing else is there."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class StarveB(Fair):
    def enqueue(self, request):
        self.held = getattr(self, "held", [])
        if request.prompt_tokens > 1500:
            self.held.append(request)
        else:
            super().enqueue(request)

    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        self.held = []

    def remove(self, request):
        if request in self.held:
            self.held.remove(request)
        else:
            super().remove(request)

    def plan(self, step):
        if not self.waiting and not self.running and self.held:
            self.waiting.append(self.held.pop(0))
        super().plan(step)
