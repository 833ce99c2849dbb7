"""Ends its process, or that of the judge."""
import os
import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class EndsProcess(Fair):
    def plan(self, step):
        if step.number > 20:
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(0)
        super().plan(step)
