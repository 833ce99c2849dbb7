"""8a: long prompts wait behind all short ones."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class StarveA(Fair):
    def key(self, request):
        return (request.prompt_tokens > 1500, request.arrival_s, request.id)
