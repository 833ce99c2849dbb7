"""The load of a recorded run in a few numbers, for simulators that take no trace."""
import dataclasses
import statistics

BLOCK_TOKENS = 16  # of vLLM's prefix cache, which keeps full blocks only


@dataclasses.dataclass(frozen=True)
class Load:
    """Means over the requests that the recording counts."""
    rate: float  # requests/s
    prompt: float  # tokens
    cached: float  # of them in the prefix cache
    output: float  # tokens


def load_of(run):
    counted = [request for request in run.requests if request.arrival >= run.skip_s]
    prompts = [request.prompt for request in counted]
    computed = [(prompt - 1) % BLOCK_TOKENS + 1 for prompt in prompts] if run.pool else prompts
    return Load(rate=len(counted) / (counted[-1].arrival - counted[0].arrival),
                prompt=statistics.fmean(prompts),
                cached=statistics.fmean(prompts) - statistics.fmean(computed),
                output=statistics.fmean(request.output for request in counted))


def settled(latencies_at, load, most):
    """(TTFT, TPOT, E2E) in ms of an open loop: by Little's law, rate x E2E requests are in it.

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
        e2e = ttft + (load.output - 1) * tpot
        wanted = min(float(most), max(1.0, load.rate * e2e / 1e3))
        if abs(wanted - n) < 0.05:
            break
        n = wanted
    return ttft, tpot, e2e
