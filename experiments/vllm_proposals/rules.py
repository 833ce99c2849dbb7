"""Three rules that were proposed to vLLM in public threads, each as a subclass of its scheduler.

Written from the threads' descriptions. Run them with `--policy rules.py:CLASS --engine vllm==0.33.0`.
"""
import time

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.request import RequestStatus


class Default(AsyncScheduler):
    """The release's own rules."""


class ShortestPrompt(AsyncScheduler):
    """Short prompts first, and requests that wait long before them.

    vllm-project/vllm#29366, "[Feat][Sched] Add SJF Scheduling Policy": waiting requests are ordered
    by a score of two terms, one that falls with the length of the prompt and one that grows with
    the time in the queue. Preempted requests stay in front.
    """

    length_weight = 0.5
    time_weight = 0.5
    length_median = 1000.0  # tokens at which the term of the length is half
    time_median = 5.0       # seconds of waiting that weigh as much as an empty prompt

    def score(self, request, now):
        length = 1 / (1 + request.num_prompt_tokens / self.length_median)
        waited = (now - request.arrival_time) / self.time_median
        return self.length_weight * length + self.time_weight * waited

    def schedule(self, *values, **named):
        now = time.time()
        order = sorted(self.waiting, key=lambda request: (
            request.status != RequestStatus.PREEMPTED, -self.score(request, now)))
        self.waiting.clear()
        self.waiting.extend(order)
        return super().schedule(*values, **named)


class LeastComputedVictim(AsyncScheduler):
    """Preempts the running request that loses the least work.

    vllm-project/vllm#54644, "[RFC]: Preemption victim-selection extension point
    (least-computed-first as the first built-in)". The release takes the last running request, so
    running requests are put in the order of what they have computed, most first.
    """

    def schedule(self, *values, **named):
        free = self.kv_cache_manager.block_pool.get_num_free_blocks()
        if free < len(self.running):  # each may need a block: somebody may be preempted
            self.running.sort(key=lambda request: -request.num_computed_tokens)
        return super().schedule(*values, **named)


class CachedPrefixFirst(AsyncScheduler):
    """Requests of which the cache holds most come first.

    vllm-project/vllm#42185, "[RFC]: Cache-affinity-aware request ordering for the V1 scheduler":
    before each step the front of the queue is ordered by the length of the cached prefix, longest
    first. A request that has waited max_wait_s keeps its place in the order of arrival.
    """

    window = 32  # requests at the front of the queue that are ordered
    max_wait_s = 10.0

    def cached_tokens(self, request):
        return self.kv_cache_manager.get_computed_blocks(request)[1]

    def schedule(self, *values, **named):
        now = time.time()
        front = [self.waiting.popleft() for _ in range(min(self.window, len(self.waiting)))]

        def key(request):
            if request.status == RequestStatus.PREEMPTED:
                return 0, 0, request.arrival_time
            if now - request.arrival_time > self.max_wait_s:
                return 1, 0, request.arrival_time
            return 2, -self.cached_tokens(request), request.arrival_time

        self.waiting.extendleft(sorted(front, key=key, reverse=True))
        return super().schedule(*values, **named)
