"""Predicted and measured latencies, and causes of the error, from `twinserve validate` folders."""
import dataclasses

import style
from environment import np, plt
from latency_cdf import limits
from policies import policy_named
from run_data import MEASURED, PlotError, Run, read_json, read_runs

PANELS = [("ttft_ms", "TTFT (ms)"), ("tpot_ms", "TPOT (ms)"), ("e2el_ms", "end-to-end (ms)")]
METRICS = [("mean_ttft_ms", "TTFT"), ("mean_tpot_ms", "TPOT"), ("mean_e2el_ms", "E2E")]


@dataclasses.dataclass(frozen=True)
class Validation:
    name: str
    metrics: dict
    measured: list  # runs
    predicted: Run


def read_validation(path):
    file = path / "validation.json"
    if not file.is_file():
        raise PlotError(f"{path}: is not a validation directory: it has no validation.json")
    found = read_json(file)
    if "real_run_paths" not in found:
        raise PlotError(f"{file}: does not name its real runs; repeat twinserve validate")
    real = [path / run for run in found["real_run_paths"]]
    return Validation(found["name"], found["metrics"], read_runs(real),
                      read_runs([path / "simulated"])[0])


def draw_curve(axes, run, column, **look):
    """Draws one curve and returns its times."""
    values = np.sort(run.table("requests.csv", [column])[column].dropna().to_numpy())
    values = values[values > 0]
    if values.size:
        axes.step(np.insert(values, 0, values[0]), np.arange(len(values) + 1) / len(values),
                  where="post", **look)
    return values


def draw_curves(axes, validation, column):
    measured, predicted = (policy_named(name).colour
                           for name in (MEASURED, validation.predicted.policy))
    shown = [draw_curve(axes, run, column, color=measured, linestyle="--" if number else "-",
                        label="measured again" if number else "measured")
             for number, run in enumerate(validation.measured)]
    shown.append(draw_curve(axes, validation.predicted, column, color=predicted, linestyle=":",
                            label="predicted"))
    axes.set_ylim(0, 1.02)
    axes.set_xscale("log")
    times = np.concatenate(shown)
    if times.size:
        axes.set_xlim(limits(times.min(), times.max()))


def draw_causes(axes, validation, looks):
    """Stacked bars: the contribution of each cause to the error of the mean, in percent of the
    measured mean."""
    for place, (name, _) in enumerate(METRICS):
        metric = validation.metrics[name]
        ends = {True: 0.0, False: 0.0}
        for cause, amount in metric["attribution"].items():
            share = 100 * amount / metric["measured"]
            axes.bar(place, share, 0.6, bottom=ends[share >= 0], label=cause, edgecolor="white",
                     linewidth=0, **looks[cause])
            ends[share >= 0] += share
        axes.plot([place - 0.35, place + 0.35], [metric["error_percent"]] * 2, color="black",
                  linewidth=1.5, marker="|", label="error")
    axes.axhline(0, color="#888888", linewidth=0.6)
    axes.set_xticks(range(len(METRICS)), [label for _, label in METRICS])
    axes.set_ylabel("error of the mean (%)")


def draw(validations, arguments):
    causes = list(dict.fromkeys(cause for validation in validations
                                for cause in validation.metrics["mean_ttft_ms"]["attribution"]))
    looks = {cause: {"color": style.COLOURS[i % len(style.COLOURS)],
                     "hatch": style.HATCHES[i % len(style.HATCHES)]}
             for i, cause in enumerate(causes)}
    figure, rows = plt.subplots(len(validations), 4, squeeze=False,
                                figsize=(style.width_of(arguments, 2),
                                         0.5 + 1.6 * len(validations)))
    for panels, validation in zip(rows, validations):
        for axes, (column, _) in zip(panels, PANELS):
            draw_curves(axes, validation, column)
        panels[0].set_ylabel(f"{style.one_line(validation.name)}\nshare of requests")
        draw_causes(panels[3], validation, looks)
    for axes, (_, title) in zip(rows[-1], PANELS):
        axes.set_xlabel(title)
    style.legend_above(figure, style.labelled(rows.flat))
    return figure


def read(paths, arguments):
    validations = [read_validation(path) for path in paths]
    labels = style.relabel([validation.name for validation in validations], arguments.labels)
    return [dataclasses.replace(validation, name=label)
            for validation, label in zip(validations, labels)]


if __name__ == "__main__":
    style.main(__doc__, "predicted_vs_measured", draw, read, "VALIDATION_DIR")
