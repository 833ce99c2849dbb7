"""19: says that no request is longer than 6,001 tokens, which cuts the outputs of everybody."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class ShortContext(Fair):
    context_tokens_max = 6001
