"""Thinks in 4 processes, each with a limit of its own."""
import os
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Forks(Fair):
    def plan(self, step):
        for _ in range(4):
            if os.fork() == 0:
                os._exit(0)
        super().plan(step)
