"""The load of a recorded run in a few numbers, for simulators that take no trace."""
import dataclasses
import statistics

WINDOW_S = 60
BLOCK_TOKENS = 16  # of vLLM's prefix cache, which keeps full blocks only


@dataclasses.dataclass(frozen=True)
class Part:
    """A stretch of a run with one rate of arrivals."""
    share: float  # of the run's requests
    rate: float  # requests/s
    prompt: float  # mean tokens
    cached: float  # of them in the prefix cache, on average
    output: float


def change_of_rate(counts):
    """The index at which the counts of windows change most; 0 if they differ by less than 20 %."""
    best, place = 0.0, 0
    for i in range(2, len(counts) - 1):
        before, after = statistics.fmean(counts[:i]), statistics.fmean(counts[i:])
        gain = i * (len(counts) - i) * (before - after) ** 2
        if gain > best and abs(before - after) > 0.2 * min(before, after):
            best, place = gain, i
    return place


def parts(run):
    """One Part, or two where the rate changes once."""
    counted = [request for request in run.requests if request.arrival >= run.skip_s]
    first, last = counted[0].arrival, counted[-1].arrival
    windows = [0] * max(1, int((last - first) / WINDOW_S))
    for request in counted:
        place = int((request.arrival - first) / WINDOW_S)
        if place < len(windows):
            windows[place] += 1
    border = first + WINDOW_S * change_of_rate(windows)
    groups = [(first, border, [r for r in counted if r.arrival < border]),
              (border, last, [r for r in counted if r.arrival >= border])]
    return [part(run, requests, end - begin, len(counted))
            for begin, end, requests in groups if requests]


def part(run, requests, seconds, total):
    prompts = [request.prompt for request in requests]
    computed = [(prompt - 1) % BLOCK_TOKENS + 1 for prompt in prompts] if run.pool else prompts
    return Part(share=len(requests) / total, rate=len(requests) / seconds,
                prompt=statistics.fmean(prompts),
                cached=statistics.fmean(prompts) - statistics.fmean(computed),
                output=statistics.fmean(request.output for request in requests))


def settled(latencies_at, rate, output, most):
    """(TTFT, TPOT) in ms of an open loop: by Little's law, requests/s times E2E are in the system.

    latencies_at(n) -> (TTFT, TPOT) with n requests in the system, for whole n. Between whole
    numbers, latencies are interpolated. At most `most` requests are in the system.
    """
    def between(n):
        low = int(n)
        (t0, p0), (t1, p1) = latencies_at(max(1, low)), latencies_at(min(most, low + 1))
        return t0 + (n - low) * (t1 - t0), p0 + (n - low) * (p1 - p0)

    n = 1.0
    for _ in range(100):
        ttft, tpot = between(n)
        wanted = min(float(most), max(1.0, rate * (ttft + (output - 1) * tpot) / 1e3))
        if abs(wanted - n) < 0.05:
            break
        n = wanted
    return ttft, tpot


def mean_over_parts(found):
    """(TTFT, TPOT, E2E) in ms of a run. found: (part, TTFT, TPOT) of each part."""
    weighted = lambda value: sum(part.share * value(part, ttft, tpot)
                                 for part, ttft, tpot in found)
    return (weighted(lambda part, ttft, tpot: ttft), weighted(lambda part, ttft, tpot: tpot),
            weighted(lambda part, ttft, tpot: ttft + (part.output - 1) * tpot))
