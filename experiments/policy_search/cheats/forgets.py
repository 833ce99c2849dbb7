"""18: forgets every tenth request."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Forgets(Fair):
    def enqueue(self, request):
        if request.id % 10:
            super().enqueue(request)
