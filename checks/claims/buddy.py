"""Memory of the serving systems before paging: contiguous requests from a buddy allocator.

Kwon et al. (SOSP 2023, section 6.1) give their versions of Orca a buddy allocator. This model keeps
the device saturated: the oldest waiting request is admitted as soon as a place for its reservation
is free, and each step adds a token to all that run. Step times do not matter for shares of memory.
"""
import dataclasses
import random


class Buddy:
    """Blocks of 2^k slots out of `slots`, the smallest free place that fits first."""

    def __init__(self, slots):
        self.free = {}
        at = 0
        for order in reversed(range(slots.bit_length())):
            if slots >> order & 1:
                self.free.setdefault(order, set()).add(at)
                at += 1 << order

    def take(self, size):
        """(start, order) of a free block of at least `size` slots; None if there is none."""
        order = (size - 1).bit_length()
        found = next((k for k in sorted(self.free) if k >= order and self.free[k]), None)
        if found is None:
            return None
        start = min(self.free[found])
        self.free[found].remove(start)
        while found > order:
            found -= 1
            self.free.setdefault(found, set()).add(start + (1 << found))
        return start, order

    def give(self, start, order):
        while True:
            other = start ^ (1 << order)
            if other not in self.free.get(order, ()):
                break
            self.free[order].remove(other)
            start, order = min(start, other), order + 1
        self.free.setdefault(order, set()).add(start)


@dataclasses.dataclass
class Use:
    """Shares of the slots, mean over steps, and the mean number of requests that run."""
    states: float  # hold keys and values of tokens
    reservation: float  # will hold some of their request later
    internal: float  # reserved by the server for a request that never uses them
    external: float  # lost by the allocator: sizes rounded up to 2^k, and free pieces too small
    running: float


def reserved_by_maximum(prompt, output, longest):
    return longest


def reserved_by_power(prompt, output, longest):
    """The output's space is the next power of two, so at most twice what is needed."""
    return min(longest, prompt + (1 << (output - 1).bit_length()))


def reserved_by_truth(prompt, output, longest):
    return prompt + output


def simulate(slots, reserve, draw_lengths, longest=2048, steps=20000, warm_up=2000, seed=1):
    """Mean use of the memory. draw_lengths(random) returns prompt and output tokens."""
    source, memory = random.Random(seed), Buddy(slots)
    running, waiting = [], None
    sums = [0.0] * 5
    for step in range(steps):
        while True:
            waiting = waiting or draw_lengths(source)
            reserved = reserve(*waiting, longest)
            place = memory.take(reserved)
            if place is None:
                break
            running.append([waiting[0], sum(waiting), place, reserved])
            waiting = None
        if step >= warm_up:
            held = sum(request[0] for request in running)
            needed = sum(request[1] for request in running)
            reserved = sum(request[3] for request in running)
            for i, value in enumerate((held, needed - held, reserved - needed, slots - reserved)):
                sums[i] += value / slots
            sums[4] += len(running)
        for request in running:
            request[0] += 1
        for request in [r for r in running if r[0] >= r[1]]:
            memory.give(*request[2])
            running.remove(request)
    return Use(*(value / (steps - warm_up) for value in sums))
