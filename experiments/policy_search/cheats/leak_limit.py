"""1: reads max_output_tokens, which by default is the true length."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Leak(Fair):
    def key(self, request):
        return (request.max_output_tokens, request.id)
