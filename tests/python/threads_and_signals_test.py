"""Runs on threads, progress and Ctrl-C."""
import concurrent.futures
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import twinserve


def test_runs_on_two_threads_are_independent(quickstart):
    changes = {"workload.requests": 300}
    alone = {seed: twinserve.run(quickstart, {**changes, "seed": seed}).digest for seed in (1, 2)}
    assert alone[1] != alone[2]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda seed: twinserve.run(quickstart, {**changes, "seed": seed}),
                             [1, 2, 1, 2]))
    assert [run.digest for run in runs] == [alone[1], alone[2], alone[1], alone[2]]


def test_python_goes_on_while_a_run_works(quickstart):
    counted = 0
    ended = threading.Event()

    def simulate():
        twinserve.run(quickstart, {"workload.requests": 20000, "outputs.steps_csv": False})
        ended.set()

    thread = threading.Thread(target=simulate)
    thread.start()
    while not ended.is_set():
        counted += 1
        time.sleep(0.001)
    thread.join()
    assert counted > 5


def test_progress_is_called_and_its_exception_ends_the_run(quickstart):
    seen = []

    def progress(what, done, total):
        seen.append((what, done, total))
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        twinserve.run(quickstart, {"workload.requests": 100000000, "outputs.requests_csv": False,
                                   "outputs.steps_csv": False}, progress=progress)
    assert seen[0][0] == "vllm_v1" and seen[0][2] == 100000000
    assert len(seen) == 1


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_every_kind_of_exception_of_progress_ends_the_run(quickstart, raised):
    def progress(what, done, total):
        raise raised

    with pytest.raises(raised):
        twinserve.run(quickstart, {"workload.requests": 100000000, "outputs.requests_csv": False,
                                   "outputs.steps_csv": False}, progress=progress)


SCRIPT = """
    import sys, twinserve
    {policy}
    print("ready", flush=True)
    try:
        endless = {{"workload.requests": 100000000, "outputs.requests_csv": False,
                   "outputs.steps_csv": False}}
        twinserve.run({experiment!r}, endless, {argument})
    except KeyboardInterrupt:
        sys.exit(42)
"""
STUCK = textwrap.dedent("""
class Stuck(twinserve.Policy):
    def plan(self, step):
        while True:
            pass
""")


@pytest.mark.parametrize("policy, argument", [("", ""), (STUCK, "policy=Stuck")],
                         ids=["built_in", "stuck_in_python"])
def test_ctrl_c_ends_a_run(quickstart, policy, argument):
    script = textwrap.dedent(SCRIPT).format(policy=policy, experiment=str(quickstart),
                                            argument=argument)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 42


def test_ctrl_c_keeps_what_a_run_directory_has(quickstart, tmp_path):
    out = tmp_path / "run"
    script = textwrap.dedent(SCRIPT).format(policy="", experiment=str(quickstart),
                                            argument=f"out={str(out)!r}")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("run.partial.*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 42
    assert twinserve.load(out).summary["interrupted"] == 1
