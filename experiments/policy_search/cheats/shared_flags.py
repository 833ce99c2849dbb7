"""4: counts its runs in the flags of a file that all its processes have open."""
import fcntl
import os
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair

RAN_BEFORE = fcntl.fcntl(0, fcntl.F_GETFL) & os.O_APPEND


class SharedFlags(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_APPEND)

    def key(self, request):
        return os.urandom(4) if RAN_BEFORE else super().key(request)
