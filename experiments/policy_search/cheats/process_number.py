"""4: knows by the number of its process that it ran before."""
import os
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair

FIRST = 2  # behind the process from which it was split


class ProcessNumber(Fair):
    def key(self, request):
        return os.urandom(4) if os.getpid() > FIRST else super().key(request)
