"""Allocates without bound."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Allocates(Fair):
    def plan(self, step):
        self.kept = getattr(self, "kept", [])
        self.kept.append(bytearray(1 << 28))
        super().plan(step)
