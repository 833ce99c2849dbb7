"""Length sets of the claims, named as in the README, as messages of workload.shape.

Prompt and output lengths are drawn independently. What is not published is stated beside each set.
"""
import math
import statistics

from simulator import Word

PROBABILITIES = [0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98,
                 0.99, 0.995, 1]
# Quantiles of 10,000 ShareGPT conversations, Llama 2 tokens (AKafakA/vidur_opt_scheduler,
# sharegpt_val_10k_llama2.csv, revision 20bdc49d, MIT); means 246 and 326.
SHAREGPT_PROMPT = [1, 7, 9, 13, 18, 24, 35, 55, 101, 143, 229, 404, 761, 1423, 1947, 2306, 2862,
                   3284,
                   3973]
SHAREGPT_OUTPUT = [3, 23, 43, 106, 167, 232, 286, 341, 405, 446, 502, 571, 681, 839, 920, 953, 1000,
                   1044, 1734]


def fixed(value):
    return {"kind": Word("fixed"), "value": value}


def uniform(low, high):
    return {"kind": Word("uniform"), "min": low, "max": high}


def lognormal(median, quantile_90, high):
    """From median and 90 % quantile."""
    sigma = math.log(quantile_90 / median) / statistics.NormalDist().inv_cdf(0.9)
    return {"kind": Word("lognormal"), "median": median, "sigma": round(sigma, 6), "max": high}


def lognormal_mean(mean, sigma, high):
    return {"kind": Word("lognormal"), "mean": mean, "sigma": sigma, "max": high}


def empirical(probabilities, values):
    return {"kind": Word("empirical"), "probabilities": probabilities, "values": values}


def mean_of(probabilities, values):
    """The mean of a distribution with linear pieces between its quantiles."""
    return sum((p1 - p0) * (v0 + v1) / 2 for p0, p1, v0, v1 in
               zip(probabilities, probabilities[1:], values, values[1:]))


def rescaled(values, mean, high):
    """The quantiles times a factor, cut at `high`, so that the mean is `mean`."""
    low_factor, high_factor = 0.0, 10.0
    for _ in range(60):
        factor = (low_factor + high_factor) / 2
        scaled = [min(high, max(1, factor * value)) for value in values]
        if mean_of(PROBABILITIES, scaled) < mean:
            low_factor = factor
        else:
            high_factor = factor
    return [round(value) for value in scaled]


def normal(mean, deviation):
    """41 quantiles of a normal distribution, from 0.1 % to 99.9 %, at least 1."""
    shape = statistics.NormalDist(mean, deviation)
    points = [i / 40 for i in range(41)]
    values = [shape.inv_cdf(min(0.999, max(0.001, p))) for p in points]
    return empirical(points, [max(1, round(value)) for value in values])


def exponential_below(mean, limit, points=64):
    """Exponential, drawn again while above `limit`: quantiles."""
    values = [limit * (i / points) ** 2 for i in range(points + 1)]  # close where most lengths are
    shares = [math.expm1(-value / mean) / math.expm1(-limit / mean) for value in values]
    pairs = [(round(p, 9), max(1, round(value))) for p, value in zip(shares, values)
             if p < 1 - 1e-6]
    return empirical(*zip(*pairs, (1, limit)))


def exponential_below_mean(mean, limit):
    """The mean of an exponential variable that is drawn again while above `limit`."""
    return mean - limit / math.expm1(limit / mean)


# vLLM, Fig. 11: means 161.31 and 337.99 (R). Stand-in: the quantiles above, rescaled to these
# means, prompt and output below 1,024 so that both fit into OPT's 2,048 positions.
SHAREGPT_VLLM_PROMPT = rescaled(SHAREGPT_PROMPT, 161.31, 1023)
SHAREGPT_VLLM_OUTPUT = rescaled(SHAREGPT_OUTPUT, 337.99, 1024)
SHAREGPT_VLLM = {"prompt": empirical(PROBABILITIES, SHAREGPT_VLLM_PROMPT),
                 "output": empirical(PROBABILITIES, SHAREGPT_VLLM_OUTPUT)}
# vLLM, Fig. 11: means 19.31 and 58.45 (R). The distribution is not published; lognormal.
ALPACA_VLLM = {"prompt": lognormal_mean(19.31, 0.6, 512), "output": lognormal_mean(58.45, 0.9,
                                                                                   1024)}
# Sarathi-Serve, Table 2: median and 90 % quantile (R); lognormal, 8,192 tokens in all.
SHAREGPT4_SARATHI = {"prompt": lognormal(1730, 5696, 7168), "output": lognormal(415, 834, 1024)}
# Orca, section 6.2 (R): exact.
ORCA = {"prompt": uniform(32, 512), "output": uniform(1, 128)}


def fastgen(prompt, output):
    """FastGen (R): normal with "30 % variance", read as a deviation of 0.3 of the mean."""
    return {"prompt": normal(prompt, 0.3 * prompt), "output": normal(output, 0.3 * output)}


def anyscale(limit):
    """Anyscale's benchmark (R): exact."""
    return {"prompt": fixed(512), "output": exponential_below(128, limit)}
