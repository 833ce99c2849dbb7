"""20e: says that it plans ahead, so that a leaner host prepares its steps, and plans as ever."""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0])
from fair import Fair


class LeanHost(Fair):
    steps_in_flight_max = 2
    result_queue = "async"
    overlaps_own_steps = True
