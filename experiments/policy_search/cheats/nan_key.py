"""18: not a number as a key."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class NanKey(Fair):
    def key(self, request):
        return float("nan")
