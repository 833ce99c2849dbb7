"""10: serves the first 30 % of the requests last, as metrics that leave out a warm-up would not see."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class FirstLast(Fair):
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        self.first = None

    def enqueue(self, request):
        if self.first is None:
            self.first = request.id
        super().enqueue(request)

    def key(self, request):
        return (request.id - self.first < 180, request.arrival_s, request.id)
