"""The effect of a setting on each system: the objective of a recommendation against the setting, a line
for each server, a panel for each answer (twinserve recommend --exhaustive --format json). A point is
the best configuration with this value of the setting."""
import style
from environment import np
from policies import POLICIES
from run_data import PlotError, read_json

POLICY_OF = {"vllm": "vllm_v1", "sglang": "sglang", "tgi-2": "tgi_v2", "tgi-3": "tgi_v3",
             "trtllm": "trtllm"}
NAMES = {"token_budget": "token budget (tokens)", "max_num_seqs": "most running requests"}


def policy_of(server):
    """The policy with which a server shares its colour and marker."""
    return next((POLICIES[policy] for prefix, policy in POLICY_OF.items()
                 if server.startswith(prefix)), None)


def read_answers(paths, _arguments):
    answers = []
    for path in paths:
        answer = read_json(path)
        if not answer.get("configurations"):
            raise PlotError(f"{path}: holds no configurations of a recommendation")
        title = path.name.removesuffix(".json").removesuffix(".exhaustive")
        answers.append((title.removeprefix("systems_").replace("_", " ") + what(answer), answer))
    return answers


def what(answer):
    """The model and the devices, if all configurations have them in common."""
    texts = {f": {one['parameters'].get('model')}, {one['parameters'].get('devices')} x "
             f"{one['parameters'].get('hardware')}" for one in answer["configurations"]}
    return texts.pop() if len(texts) == 1 and "None" not in "".join(texts) else ""


def best_by_value(answer, setting):
    """By server, then value of the setting (None: it has no such setting): the best objective."""
    sign = -1 if answer["lower_is_better"] else 1
    best = {}
    for one in answer["configurations"]:
        points = best.setdefault(one["parameters"]["server"], {})
        value = one["parameters"].get(setting)
        known = points.get(value)
        if known is None or sign * one["value"]["mean"] > sign * known["mean"]:
            points[value] = one["value"]
    return best


def draw_server(axes, server, points, dash, ticks):
    policy = policy_of(server)
    label = server.replace("-", " ", 1)
    colour, marker = (policy.colour, policy.marker) if policy else ("#333333", "x")
    if None in points:
        axes.axhline(points[None]["mean"], color=colour, linestyle=dash, linewidth=1,
                     label=f"{label} (no such setting)")
        return
    values = sorted(points)
    ticks.update(values)
    mean, low, high = (np.array([points[value][key] for value in values], float)
                       for key in ("mean", "low", "high"))
    axes.fill_between(values, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(values, mean, color=colour, marker=marker, linestyle=dash, label=label)


def draw(answers, arguments):
    width = style.width_of(arguments, 2)
    columns = min(len(answers), 2 if width > 5 else 1)
    rows = -(-len(answers) // columns)
    figure, grid = style.plt.subplots(rows, columns, squeeze=False,
                                      figsize=(width, 0.4 + 1.7 * rows))
    panels = list(grid.flat)
    for axes in panels[len(answers):]:
        axes.remove()
    for axes, (title, answer) in zip(panels, answers):
        ticks = set()
        best = best_by_value(answer, arguments.setting)
        for number, (server, points) in enumerate(sorted(best.items(), reverse=True)):
            draw_server(axes, server, points, style.DASHES[number % len(style.DASHES)], ticks)
        axes.set_title(style.one_line(title))
        axes.set_xlabel(NAMES.get(arguments.setting, arguments.setting.replace("_", " ")))
        axes.set_ylabel(f"{answer['objective']} ({answer['unit']})"
                        if answer["unit"] != answer["objective"] else answer["unit"])
        means = [one["mean"] for points in best.values() for one in points.values()]
        if style.is_wide(means):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        if ticks and min(ticks) > 0:
            axes.set_xscale("log", base=2)
            axes.set_xticks(sorted(ticks), [style.size_text(tick) for tick in sorted(ticks)])
            axes.minorticks_off()
    style.legend_above(figure, dict(sorted(style.labelled(panels[:len(answers)]).items())))
    return figure


def options(parser):
    parser.add_argument("--setting", default="token_budget", metavar="NAME",
                        help="a parameter of the configurations (default: token_budget)")


if __name__ == "__main__":
    style.main(__doc__, "recommended_settings", draw, read_answers, "ANSWER.json", options)
