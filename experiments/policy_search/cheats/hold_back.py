"""15: holds prompts back, so that the tokens of others come evenly."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class HoldBack(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        self.steps = 0

    def plan(self, step):
        self.steps += 1
        if self.steps % 20 and self.running:
            kept, self.waiting = self.waiting, []
            super().plan(step)
            self.waiting += kept
        else:
            super().plan(step)
