"""Fairness among tenants: the service that each tenant of a run gets over time, and the largest
difference of accumulated service between two tenants, one line per run. Service is 1 per prompt
token, when the first token is there, and 2 per output token (VTC, OSDI 2024); output tokens are
spread evenly from the first to the last. Needs requests.csv."""
import style
from environment import np
from run_data import PlotError

COLUMNS = ["tenant", "first_token_s", "finished_s", "prompt_tokens", "output_tokens"]
WINDOWS = 60
TENANTS_MAX = 8  # lines of single tenants: those with the most service
INPUT_WEIGHT, OUTPUT_WEIGHT = 1, 2


def service(table, times):
    """Accumulated service of the requests in `table` at each time."""
    first = table["first_token_s"].to_numpy()[:, None]
    last = table["finished_s"].fillna(table["first_token_s"]).to_numpy()[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(last > first, (times - first) / (last - first), times >= first)
    output = OUTPUT_WEIGHT * table["output_tokens"].to_numpy()[:, None] * np.clip(share, 0, 1)
    return (INPUT_WEIGHT * table["prompt_tokens"].to_numpy()[:, None] * (times >= first)
            + output).sum(axis=0)


def by_tenant(run, times):
    table = run.table("requests.csv", COLUMNS).dropna(subset=["first_token_s"])
    return {tenant: service(group, times) for tenant, group in table.groupby("tenant")}


def last_time(run):
    table = run.table("requests.csv", COLUMNS)
    return table[["first_token_s", "finished_s"]].max().max()


def draw_rates(axes, run, services, times, looks):
    chosen = sorted(services, key=lambda tenant: -services[tenant][-1])[:TENANTS_MAX]
    middles = (times[1:] + times[:-1]) / 2
    for tenant, look in zip(chosen, looks):
        axes.plot(middles, np.diff(services[tenant]) / np.diff(times), color=look.colour,
                  linestyle=look.dash, marker=look.marker, markevery=WINDOWS // 8,
                  label=f"tenant {tenant}", linewidth=1)
    left_out = len(services) - len(chosen)
    axes.set_title(f"{run.label} ({len(chosen)} of {len(services)} tenants)" if left_out
                   else run.label, fontweight="bold")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(style.count_text)
    axes.set_ylabel("service per second")
    axes.set_xlabel("time (s)")


def draw(runs, arguments):
    ends = [last_time(run) for run in runs]
    if np.isnan(ends).all() or np.nanmax(ends) <= 0:
        raise PlotError("no run has a token")
    times = np.linspace(0, np.nanmax(ends), WINDOWS + 1)
    services = [by_tenant(run, times) for run in runs]
    for run, found in zip(runs, services):
        if len(found) < 2:
            raise PlotError(f"{run.path}: has {len(found)} tenants with tokens; fairness needs two")
    figure, panels = style.panels(len(runs) + 1, style.width_of(arguments, 2), 1.9)
    # One legend has tenants and runs: none of them look alike.
    tenants = min(TENANTS_MAX, max(map(len, services)))
    looks = style.looks_for([None] * tenants, [run.look for run in runs])
    for axes, run, found in zip(panels, runs, services):
        draw_rates(axes, run, found, times, looks)
    highest = max(axes.get_ylim()[1] for axes in panels[:-1])  # rates of runs are compared
    for axes in panels[:-1]:
        axes.set_ylim(0, highest)
    gap = panels[-1]
    for run, found, look in zip(runs, services, (run.look for run in runs)):
        values = np.array(list(found.values()))
        gap.plot(times, values.max(axis=0) - values.min(axis=0), color=look.colour,
                 linestyle=look.dash, marker=look.marker, markevery=WINDOWS // 8,
                 label=style.entry(run.label) if len(runs) > 1 else "largest difference")
    gap.set_title("most minus least service")
    gap.set_ylim(bottom=0)
    gap.yaxis.set_major_formatter(style.count_text)
    gap.set_ylabel("accumulated service")
    gap.set_xlabel("time (s)")
    for axes in panels:
        axes.set_xlim(0, times[-1])
    style.legend_above(figure, style.labelled(panels))
    return figure


if __name__ == "__main__":
    style.main(__doc__, "fairness", draw)
