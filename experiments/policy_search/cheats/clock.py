"""11: orders by the wall clock."""
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Clock(Fair):
    def key(self, request):
        return time.time_ns() * (request.id % 7) % 1000003
