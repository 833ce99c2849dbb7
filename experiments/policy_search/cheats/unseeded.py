"""11: orders by unseeded random numbers."""
import random
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Unseeded(Fair):
    def key(self, request):
        return random.random()
