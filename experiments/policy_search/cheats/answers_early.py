"""Sends its answers before it is asked, so that they take no time."""
import os
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair

JUDGE = 4  # the descriptor of its answers


class AnswersEarly(Fair):
    def plan(self, step):
        super().plan(step)
        if step.number == 20:
            os.write(JUDGE, (19).to_bytes(4, "little") + bytes(19))
