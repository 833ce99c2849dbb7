"""20: says that its steps have one token, so that less memory is kept for them and more for the cache."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class SizedSmall(Fair):
    sized_for_tokens = 1
