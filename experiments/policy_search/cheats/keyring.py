"""4: leaves what it learns to the kernel."""
import ctypes
import platform
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair

ADD_KEY = 248 if platform.machine() == "x86_64" else 217


class Keyring(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        ctypes.CDLL(None).syscall(ADD_KEY, b"user", b"policy", b"1", 1, -4)
