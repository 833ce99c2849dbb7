"""27: writes answers of its own making between those of its process."""
import os
import random
import struct
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Forges(Fair):
    calls = 0

    def plan(self, step):
        self.calls += 1
        if self.calls == 20:
            drawn = random.Random(7)
            answer = bytes([6, 1]) + drawn.randbytes(400)
            os.write(4, struct.pack("I", len(answer)) + answer)
        super().plan(step)
