"""14: decodes more requests in a step than the system allows and anybody has measured."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class ManySequences(Fair):
    sequences_per_step_max = 4096

    def key(self, request):
        return (request.prompt_tokens, request.id)
