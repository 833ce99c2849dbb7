"""4: counts its runs in memory that copies of its process would share, and decides by chance once
its first runs were compared."""
import mmap
import os
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair

RUNS = mmap.mmap(-1, 8)  # shared with every process that is split from this one


class SharedMemory(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        RUNS[0] = min(RUNS[0] + 1, 9)

    def key(self, request):
        return os.urandom(4) if RUNS[0] > 2 else super().key(request)
