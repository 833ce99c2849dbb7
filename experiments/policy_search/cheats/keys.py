"""22: orders requests by the keys of their blocks, from which lengths could be computed."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class Keys(Fair):
    caches_prefixes = True

    def key(self, request):
        return (request.prefix_keys()[:1], request.id)
