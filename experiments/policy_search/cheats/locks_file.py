"""4: tells the next run by the lock of a file."""
import fcntl
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class LocksFile(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        with open(__file__, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
