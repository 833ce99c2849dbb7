"""What the package is as a whole: what it loads, its command, and its data."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

import twinserve

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "twinserve"]
PACKAGE = str(pathlib.Path(twinserve.__file__).parents[1])


@pytest.fixture
def call(tmp_path):
    """Calls Python or the command in an empty folder; returns the finished process."""
    def call(*words):
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": PACKAGE})
    return call


def digest_in(run_dir):
    return twinserve.load(run_dir).digest


def test_doctor_names_the_package_and_its_extras(call):
    done = call(*COMMAND, "doctor")
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith(("package", "extras")))
    assert lines["package"] == os.path.dirname(twinserve.__file__)
    assert lines["extras"].startswith("tables, ")
    assert "package" not in call(*COMMAND, "doctor", "--format", "json").stdout


def test_import_loads_neither_numpy_nor_pandas(call):
    done = call(sys.executable, "-c",
                "import sys, twinserve; print(sorted({'numpy', 'pandas'} & set(sys.modules)))")
    assert done.stdout == "[]\n", done.stderr


def test_every_name_is_there():
    assert all(getattr(twinserve, name) is not None for name in twinserve.__all__)
    assert set(twinserve.__all__) <= set(dir(twinserve))
    assert twinserve.traces.read_trace is twinserve.read_trace
    with pytest.raises(AttributeError, match="'runs'"):
        twinserve.runs


@pytest.mark.parametrize("use", ["twinserve.compare", "twinserve.run(TINY).requests",
                                 "twinserve.sweep", "twinserve.read_trace"])
def test_what_needs_pandas_says_so_in_one_line(call, tiny, use):
    done = call(sys.executable, "-c", f"import sys; sys.modules['pandas'] = None\n"
                f"import twinserve; TINY = {tiny!r}\ntwinserve.run(TINY).summary\n{use}")
    assert done.stderr.splitlines()[-1] == ("ImportError: twinserve: tables need pandas; allowed: "
                                            'pip install "twinserve[tables]"')


def test_a_name_stands_for_an_experiment_of_the_package(quickstart, tmp_path, monkeypatch):
    here = twinserve.run(quickstart, {"workload.requests": 50})
    monkeypatch.chdir(tmp_path)
    assert twinserve.run("quickstart/vllm_v1", {"workload.requests": 50}).digest == here.digest
    with pytest.raises(twinserve.InputError, match="^quickstart/vllm_v9: "):
        twinserve.run("quickstart/vllm_v9")


def test_the_command_is_the_program(call, command_line, quickstart, tmp_path):
    changes = ("--set", "workload.requests=50", "--out")
    done = call(*COMMAND, "run", "quickstart/vllm_v1", *changes, tmp_path / "command")
    assert done.returncode == 0, done.stderr
    program = command_line("run", quickstart, *changes, tmp_path / "program")
    assert done.stdout == program.stdout
    assert digest_in(tmp_path / "command") == digest_in(tmp_path / "program")
    wrong = call(*COMMAND, "rum")
    assert wrong.returncode == 2 and 'no command "rum"; nearest "run"' in wrong.stderr
    assert "examples" in call(*COMMAND, "--help").stdout


def test_ctrl_c_ends_the_command_with_results(tmp_path):
    with subprocess.Popen(
            [*COMMAND, "run", "quickstart/vllm_v1", "--set", "workload.requests=100000000",
             "--out", tmp_path / "run"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": PACKAGE}) as process:
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "interrupted: the results cover" in errors
    assert (tmp_path / "run/summary.json").is_file()


def test_examples_are_listed_by_names_that_can_be_run(call):
    listed = call(*COMMAND, "examples").stdout.splitlines()
    names = [line for line in listed if not line.startswith("#")]
    assert "quickstart/vllm_v1" in names and "rate_sweep/study" in names
    assert not any(name.rsplit("/", 1)[-1].startswith("_") for name in names)
    for name in names:
        assert twinserve._native.experiment_file(name) != name, name


def test_examples_are_copied_into_a_new_folder_only(call, tmp_path):
    assert call(*COMMAND, "examples", "copy").returncode == 0
    for file in ("experiments/quickstart/vllm_v1.textproto", "traces/samples/vidur.csv",
                 "notebooks/own_policy.ipynb"):
        assert (tmp_path / "copy" / file).is_file()
    again = call(*COMMAND, "examples", "copy")
    assert again.returncode == 2
    assert again.stderr == ("twinserve: examples: copy: exists; allowed: a new or empty folder\n")


def test_the_program_names_the_package_for_its_commands(call, command_line):
    texts = (call(*COMMAND, "--help").stdout, command_line("--help").stdout)
    of_package, of_program = (set(re.findall(r"^  (\w+) {2,}", text, re.MULTILINE)) for text in texts)
    further = of_package - of_program
    assert further == {"engines", "examples", "plot"}
    for name in further:
        refused = command_line(name, check=False)
        assert refused.stderr.startswith(f"twinserve: {name}: is a command of the Python package; allowed: ")


def test_figures_are_commands_and_modules(call, tmp_path):
    call(*COMMAND, "run", "quickstart/vllm_v1", "--set", "workload.requests=50", "--out", "run")
    assert call(*COMMAND, "plot", "latency_cdf", "run", "--out", "a.svg").stdout == "a.svg\n"
    module = call(sys.executable, "-m", "twinserve.plots.latency_cdf", "run", "--out", "b.svg")
    assert module.stdout == "b.svg\n", module.stderr
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.txt").read_text().startswith("latency_cdf. Distributions of ")
    assert "\npalette: 0072B2, " in call(*COMMAND, "plot", "--print-style").stdout
    wrong = call(*COMMAND, "plot", "latency_cfd", "run")
    assert wrong.returncode == 2
    assert re.fullmatch(r'twinserve: plot: no figure "latency_cfd"; nearest "latency_cdf"; allowed: '
                        r"attainment_vs_rate, .*\n", wrong.stderr)
    scripts = {path.stem for path in (ROOT / "plots").glob("*.py") if "style.main(" in path.read_text()}
    listed = re.findall(r"^  (\w+)  ", call(*COMMAND, "plot").stdout, re.MULTILINE)
    assert set(listed) >= scripts


def test_the_list_of_data_is_what_the_tree_has():
    lines = (ROOT / "apps/python/package_data.txt").read_text().splitlines()
    listed = [line for line in lines if not line.startswith("#")]
    # Experiments that run models or drive a build of the tree are of no use without it.
    left_out = {"quickstart_cpu", "cpu_validation", "serving"}
    wanted = {path for path in (ROOT / "experiments").rglob("*")
              if (path.suffix in (".textproto", ".md", ".json") or path.name == "rules.py")
              and path.relative_to(ROOT).parts[1] not in left_out and "expected" not in path.parts}
    for pattern in ("traces/data/*", "traces/samples/*", "plots/*.py", "apps/python/notebooks/*.ipynb",
                    "experiments/policy_search/*.py", "experiments/policy_search/**/*.csv"):
        wanted |= set(ROOT.glob(pattern))
    assert listed == sorted(str(path.relative_to(ROOT)) for path in wanted)
