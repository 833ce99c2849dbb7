"""Prefix-cache hits of each run: the share of prompt tokens that came from the cache, over time and
over requests. Needs requests.csv."""
import style
from environment import np
from run_data import PlotError

COLUMNS = ["scheduled_s", "prompt_tokens", "cached_tokens"]
WINDOWS = 40


def windows(table, edges):
    """Hit share of the prompt tokens scheduled in each window, in percent; NaN without any."""
    sums = [np.histogram(table["scheduled_s"], edges, weights=table[name])[0]
            for name in ("cached_tokens", "prompt_tokens")]
    with np.errstate(invalid="ignore"):
        return 100 * np.divide(*sums, out=np.full(len(edges) - 1, np.nan), where=sums[1] > 0)


def draw(runs, arguments):
    tables = [run.table("requests.csv", COLUMNS).dropna() for run in runs]
    tables = [table[table["prompt_tokens"] > 0] for table in tables]
    if all(table.empty for table in tables):
        raise PlotError("no run has a request that was scheduled")
    longest, missing = 0, []
    figure, (time, share) = style.panels(2, style.width_of(arguments, 2), 1.9)
    for number, (run, table) in enumerate(zip(runs, tables)):
        if table.empty:
            missing.append((f"{run.label}: no request was scheduled", run.look.colour))
            continue
        look = {"color": run.look.colour, "linestyle": run.look.dash, "marker": run.look.marker,
                "markevery": style.stagger(number, len(runs))}
        end = table["scheduled_s"].max() or 1
        longest = max(longest, end)
        edges = np.linspace(0, end, WINDOWS + 1)
        mean = 100 * table["cached_tokens"].sum() / table["prompt_tokens"].sum()
        time.plot((edges[1:] + edges[:-1]) / 2, windows(table, edges),
                  label=style.entry(f"{run.label} ({mean:.0f} %)"), **look)
        shares = np.sort(100 * table["cached_tokens"] / table["prompt_tokens"])
        share.step(np.append(shares, 100), np.append(np.arange(1, len(shares) + 1), len(shares))
                   / len(shares), where="post", **look)
    style.note(time, missing)
    time.set_xlim(0, longest)
    time.set_ylim(0, 102)
    time.set_xlabel("time (s)")
    time.set_ylabel("cached prompt tokens (%)")
    share.set_xlim(-2, 102)
    share.set_ylim(0, 1.02)
    share.set_xlabel("cached prompt tokens (%)")
    share.set_ylabel("share of requests")
    style.legend_above(figure, style.labelled([time]))
    return figure


if __name__ == "__main__":
    style.main(__doc__, "prefix_hits", draw)
