"""Schedulers of releases of vLLM as policies: whole runs as the policy vllm_v1 decides them, replay,
studies, and one line for each mistake.

What needs a release is skipped where it is not installed; $TWINSERVE_ENGINES or build/originals has it.
"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest
import twinserve
from conftest import ROOT, TINY
from twinserve import engines

os.environ.setdefault("TWINSERVE_ENGINES", str(ROOT / "build/originals"))
ENGINE, *OTHERS = engines.RELEASES
ALLOWED = ", ".join(engines.RELEASES)
from twinserve.engines import loading  # noqa: E402 (its variable comes first)

needs_release = pytest.mark.skipif(
    ENGINE not in loading.installed(),
    reason=f"the release {ENGINE} is not installed: twinserve engines install {ENGINE}")

RULES = '''
import time

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler


class Reversed(Scheduler):
    """The queue the other way round."""

    every = 1

    def schedule(self, *values, **named):
        if self.current_step % self.every == 0:
            order = list(self.waiting)[::-1]
            self.waiting.clear()
            self.waiting.extend(order)
        return super().schedule(*values, **named)


class Clock(AsyncScheduler):
    def schedule(self, *values, **named):
        assert 0 <= time.monotonic() == time.time() < 1000  # seconds of the run
        assert all(request.arrival_time <= time.time() + 1e-6 for request in self.waiting)
        return super().schedule(*values, **named)


class Raises(Scheduler):
    def schedule(self, *values, **named):
        if self.current_step == 3:
            self.nothing()
        return super().schedule(*values, **named)


class Idle(Scheduler):
    def schedule(self, *values, **named):
        self.max_num_scheduled_tokens = 0
        return super().schedule(*values, **named)


class Ends(Scheduler):
    def update_from_output(self, *values):
        from vllm.v1.request import RequestStatus
        result = super().update_from_output(*values)
        self.finish_requests(list(self.requests), RequestStatus.FINISHED_ABORTED)
        return result


class Lies(Scheduler):
    def schedule(self, *values, **named):
        output = super().schedule(*values, **named)
        for name in output.num_scheduled_tokens:
            output.num_scheduled_tokens[name] += 1
        return output


class Small(AsyncScheduler):
    """Raises as soon as the hostile worlds of the judge are behind it."""

    def schedule(self, *values, **named):
        assert self.kv_cache_config.num_blocks < 100, "a large cache"
        return super().schedule(*values, **named)


class NoScheduler:
    pass
'''


@pytest.fixture(scope="session")
def whole_runs():
    loader = importlib.machinery.SourceFileLoader(
        "whole_runs", str(ROOT / "checks/originals/whole_runs"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("whole_runs", loader))
    sys.modules["whole_runs"] = module
    loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "tiny.textproto").write_text(
        TINY.replace("  shape {", "  max_output { kind: fixed value: 8 }\n  shape {"))
    (tmp_path / "rules.py").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(*words, **variables):
    """The command, which may not hang."""
    return subprocess.run([sys.executable, "-m", "twinserve", *map(str, words)],
                          capture_output=True, text=True, timeout=120,
                          env=os.environ | variables)


def refused(*words, **variables):
    """The one line of a command that fails."""
    done = called("run", "tiny.textproto", "--out", "run", *words, **variables)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_the_promised_releases_are_rules_of_the_policy():
    text = (ROOT / "config/policy.proto").read_text()
    for rules in engines.RELEASES.values():
        assert f"{rules} =" in text


@needs_release
@pytest.mark.parametrize("name", [
    "plain", "whole_prompts", "priorities", "prefixes", "threshold", "closed_loop", "async",
    "async_prefixes", "async_priorities", "async_whole_prompts", "impatient", "async_impatient"])
def test_the_release_decides_whole_runs_as_the_policy_does(whole_runs, name):
    assert name in whole_runs.CASES and len(whole_runs.CASES) == 12
    case = whole_runs.CASES[name]
    case = whole_runs.Case(**vars(case) | {"blocks": 900})  # few requests need a tight cache
    ours, theirs, _, _ = whole_runs.decided(case, ENGINE, 150, seed=3)
    assert theirs.digest == ours.digest
    assert theirs.summary["preemptions"] > 0
    assert theirs.summary["mean_ttft_ms"] == ours.summary["mean_ttft_ms"]
    assert theirs.summary["cancelled"] > 0 or not case.timeout_s
    if "prefixes" in name:
        assert theirs.summary["prefix_hit_share"] > 0.1


@pytest.mark.parametrize("engine", OTHERS)
def test_other_releases_decide_by_the_rules_that_they_have(engine):
    if engine not in loading.installed():
        pytest.skip(f"{engine}: twinserve engines install {engine}")
    done = subprocess.run(
        [sys.executable, ROOT / "checks/originals/whole_runs", "--engine", engine, "--requests",
         "300", "--cases", "async_priorities", "prefixes"], capture_output=True, text=True,
        timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" yes ") == 2


@needs_release
@pytest.mark.parametrize("words", [
    [str(ROOT / "experiments/quickstart/vllm_v1.textproto")],
    ["--model", "llama-3.1-8b", "--hardware", "h100", "--server", "vLLM 0.33.0", "--rate", "20",
     "--draws", "0"]], ids=["file", "server"])
def test_an_engine_decides_under_the_settings_of_the_experiment(folder, words):
    runs = []
    for name, more in (("ours", []), ("theirs", ["--engine", ENGINE])):
        done = called("run", *words, "--set", "workload.requests=300", *more, "--out", name)
        assert done.returncode == 0, done.stderr
        runs.append(twinserve.load(name).digest)
    assert runs[0] == runs[1]


@needs_release
def test_settings_that_the_scheduler_lacks_are_refused_by_name(folder):
    pathlib.Path("ordered.textproto").write_text(
        'base: "tiny.textproto" policy { vllm_v1 { order { kind: sjf } } }')
    orca = ROOT / "experiments/quickstart/orca.textproto"
    for experiment, line in (
            ("ordered.textproto", "policy.own.parameters.order: is no parameter"),
            (orca, "policy.orca.max_bs: cannot be given to the scheduler of vllm==0.33.0")):
        done = called("run", experiment, "--engine", ENGINE)
        assert done.returncode == 2 and line in done.stderr, done.stderr


@needs_release
def test_a_process_runs_one_release(folder, monkeypatch):
    engines.use(ENGINE)
    with pytest.raises(twinserve.InputError, match="but this process runs vllm==0.33.0; allowed: one"):
        engines.use(OTHERS[0])


@needs_release
def test_a_recorded_run_is_decided_again(folder):
    twinserve.run("tiny.textproto", policy="rules.py:Reversed", engine=ENGINE, out="run",
                  overrides={"workload.arrivals.rate": 3000, "policy.own.parameters.every": "2"})
    assert twinserve.replay("run").equal
    done = called("replay", "run")
    assert (done.returncode, done.stdout.split()[-1]) == (0, "equal")


@needs_release
def test_a_class_of_this_process_decides(folder):
    engines.use(ENGINE)
    from vllm.v1.core.sched.scheduler import Scheduler

    class Here(Scheduler):
        pass

    changes = {"workload.arrivals.rate": 3000}
    limits = {"max_num_batched_tokens": 512, "max_num_seqs": 16, "max_model_len": 512}
    ours = twinserve.run("tiny.textproto", changes)
    run = twinserve.run("tiny.textproto", changes, policy=engines.policy(Here, ENGINE, **limits))
    assert run.digest == ours.digest
    with pytest.raises(twinserve.InputError, match="max_num_seq: is no parameter of Here"):
        engines.policy(Here, ENGINE, max_num_seq=3)
    with pytest.raises(twinserve.InputError, match="str: is no scheduler; allowed: a subclass of"):
        engines.policy(str, ENGINE)


@needs_release
def test_a_scheduler_sees_the_time_of_the_run(folder):
    run = twinserve.run("tiny.textproto", policy="rules.py:Clock", engine=ENGINE)
    assert run.summary["completed"] == 100


@needs_release
def test_a_study_varies_classes_and_their_parameters(folder):
    study = ('base: "tiny.textproto"\naxis { path: "policy.own.parameters.every" values: [1, 5] }\n')
    table = twinserve.sweep(study, jobs=2, policy="rules.py:Reversed", engine=ENGINE,
                            overrides={"workload.arrivals.rate": 3000})
    assert table["error"].isna().all() and table["digest"].nunique() == 2


@needs_release
def test_mistakes_are_one_line(folder):
    own = ("--policy", "rules.py:Reversed", "--engine", ENGINE)
    assert "rules.py: has several schedulers; allowed: Reversed, Clock, Raises, Idle" in refused(
        "--policy", "rules.py", "--engine", ENGINE)
    assert ("NoScheduler: is no scheduler; allowed: a subclass of Scheduler or AsyncScheduler of "
            f"{ENGINE}") in refused("--policy", "rules.py:NoScheduler", "--engine", ENGINE)
    assert "has no class Nobody; allowed: Reversed" in refused(
        "--policy", "rules:Nobody", "--engine", ENGINE)
    assert "absent_package:X: absent_package cannot be imported: ModuleNotFoundError" in refused(
        "--policy", "absent_package:X", "--engine", ENGINE)
    (folder / "broken.py").write_text("x = 1\ny = x / 0\n")
    assert "ZeroDivisionError: division by zero (broken.py, line 2)" in refused(
        "--policy", "broken:X", "--engine", ENGINE)
    assert "policy.own.parameters.ever: is no parameter of Reversed; nearest every" in refused(
        *own, "--set", "policy.own.parameters.ever=1")
    assert "refuses them: policy: Input should be 'fcfs' or 'priority'" in refused(
        *own, "--set", "policy.own.parameters.policy=lifo")
    assert "Reversed is a subclass of Scheduler; allowed: false" in refused(
        *own, "--set", "policy.own.parameters.async_scheduling=true")


@needs_release
def test_failures_of_a_scheduler_are_one_line(folder):
    def failure(name):
        return refused("--policy", f"rules.py:{name}", "--engine", ENGINE)

    assert ("policy Raises: plan() failed in step 4: SchedulerFailed: schedule() raised "
            "AttributeError: 'Raises' object has no attribute 'nothing' (rules.py, line ") in \
        failure("Raises")
    assert "requests are unfinished, nothing is in flight, nothing is planned" in failure("Idle")
    assert "MirrorError: 0 requests are unfinished in the scheduler, and 1 in the engine" in \
        failure("Ends")
    assert "MirrorError: schedule() gives request 0 65 tokens, and its blocks were taken for 64" in \
        failure("Lies")


@needs_release
def test_a_scheduler_serves_hostile_worlds(folder):
    # In the first one of this seed an end without a token could pass for a cancellation.
    done = called("judge", "rules.py:Small", "--engine", ENGINE, "--seed", 80, "--hostile", 20,
                  "--set", "policy.vllm_v1.release=v0_33_0",
                  "--set", "policy.vllm_v1.async_scheduling=true",
                  "--set", "policy.vllm_v1.enable_prefix_caching=true", "--cells", 1)
    verdict = json.loads(done.stdout)
    assert verdict["judge"]["hostile_worlds"] == 20, verdict
    assert "a large cache" in verdict["reason"]


def test_other_releases_are_refused(folder):
    assert f"policy.own.engine: vllm==0.2.0 is not followed; allowed: {ALLOWED}\n" in refused(
        "--engine", "vllm==0.2.0")
    assert f"policy.own.engine: is other; allowed: {ALLOWED}\n" in refused("--engine", "other")
    assert (f"policy.own.engine: {ENGINE} is not installed; installed: none; install it with: "
            f"twinserve engines install {ENGINE}") in refused(
        "--engine", ENGINE, TWINSERVE_ENGINES=str(folder / "none"))
    assert "policy.own.engine: is missing, and rules:Reversed is in no file; allowed: a release" in \
        refused("--policy", "rules:Reversed")
    with pytest.raises(twinserve.InputError, match="engine: belongs to a class that `policy` names"):
        twinserve.run("tiny.textproto", policy=twinserve.Policy(), engine=ENGINE)


def test_the_command_lists_what_can_be_installed(folder):
    none = {"TWINSERVE_ENGINES": str(folder / "none")}
    assert called("engines", **none).stdout == "".join(
        f"{engine} not installed\n" for engine in engines.RELEASES)
    done = called("engines", "install", "vllm", **none)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"allowed: {ALLOWED}\n" in done.stderr
    assert pathlib.Path(folder / "none").exists() is False
