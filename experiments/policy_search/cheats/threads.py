"""Goes on thinking in a thread while the judge simulates."""
import sys
import threading

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Threads(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        threading.Thread(target=sum, args=(range(1 << 24),), daemon=True).start()
