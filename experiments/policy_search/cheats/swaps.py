"""20d: asks for swap space, which only another system has."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Swaps(Fair):
    swaps_to_host = True
