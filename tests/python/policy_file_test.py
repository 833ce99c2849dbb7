"""Policies in files, on the command line of the package and in studies: named, hashed, several
processes, one line for each mistake."""
import json
import os
import pathlib
import subprocess
import sys

import pandas as pd
import pytest
import twinserve
from conftest import TINY

# What vLLM V1 does without prefix caching, asynchronous scheduling, and preemption, as in
# policy_test.py. Notes the process of each run.
SOURCE = '''
import os, pathlib
import twinserve

NOTES = pathlib.Path(__file__).with_name("processes")

class Served(twinserve.Policy):
    tokens_per_step_max = 512
    sequences_per_step_max = 16
    context_tokens_max = 512
    greedy: bool = True
    share: float = 1.0

    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        with NOTES.open("a") as notes:
            notes.write(f"{os.getpid()}\\n")

    def plan(self, step):
        done = step.schedule_decodes(self.running)
        for request in self.running[done:]:
            tokens = min(request.left, step.tokens_left)
            if tokens > 0 and step.grow(request, request.computed + tokens):
                step.schedule(request, tokens)
        while self.waiting and step.tokens_left > 0 and step.sequences_left > 0:
            request = self.waiting[0]
            tokens = min(request.left, step.tokens_left)
            if step.blocks_for(tokens) > step.free_blocks:
                break
            step.admit(request)
            assert step.grow(request, tokens)
            step.schedule(request, tokens)
'''
VLLM = ("policy=vllm_v1 { max_num_batched_tokens: 512 max_num_seqs: 16 max_model_len: 512 "
        "enable_prefix_caching: false async_scheduling: false release: v0_15_1 }")
BUSY = {"workload.arrivals.rate": 3000, "workload.requests": 200,
        "system.memory.blocks_override": 256}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tiny.textproto").write_text(TINY)
    (tmp_path / "served.py").write_text(SOURCE)
    (tmp_path / "study.textproto").write_text(
        'base: "tiny.textproto"\n'
        'axis { path: "workload.arrivals.rate" values: [1000, 3000] }\nreplications: 3\n'
        'set: "workload.requests=200"\nset: "system.memory.blocks_override=256"\n')
    return tmp_path


@pytest.fixture
def package(folder):
    """Calls the command of the package in the folder; returns the finished process."""
    def call(*arguments, check=True):
        return subprocess.run([sys.executable, "-m", "twinserve", *map(str, arguments)], cwd=folder,
                              check=check, capture_output=True, text=True)
    return call


def processes(folder):
    notes = folder / "processes"
    lines = notes.read_text().split() if notes.exists() else []
    notes.unlink(missing_ok=True)
    return {int(line) for line in lines}


def busy(verb, *arguments):
    changes = [word for path, value in BUSY.items() for word in ("--set", f"{path}={value}")]
    return [verb, "tiny.textproto", *changes, *arguments]


def test_a_file_decides_as_its_class_and_the_run_directory_names_it(folder, package):
    package(*busy("run", "--policy", "served.py:Served", "--out", "own"))
    package(*busy("run", "--set", VLLM, "--out", "vllm"))
    own, vllm = (json.loads((folder / out / "summary.json").read_text()) for out in ("own", "vllm"))
    assert own["digest"] == vllm["digest"]
    config = (folder / "own/config.resolved.textproto").read_text()
    assert f'path: "{folder}/served.py"\n    class: "Served"' in config
    inputs = json.loads((folder / "own/provenance.json").read_text())["inputs"]
    [policy] = [file for file in inputs if file["field"] == "policy.own.path"]
    assert (policy["file"], policy["bytes"], len(policy["hash"])) == ("served.py", len(SOURCE), 16)
    assert package("replay", "own").stdout.endswith("equal\n")
    assert twinserve.replay(folder / "own").equal
    (folder / "served.py").unlink()
    refused = package("replay", "own", check=False)
    assert refused.returncode == 2 and "served.py: no such file" in refused.stderr


def test_run_takes_a_file_and_the_name_of_a_policy(folder):
    named = twinserve.run(TINY, BUSY, policy=folder / "served.py")
    assert named.digest == twinserve.run(TINY, {**BUSY, "policy": VLLM[len("policy="):]}).digest
    assert twinserve.run(TINY, policy="orca").digest == twinserve.run(TINY, {"policy": "orca"}).digest


def test_parameters_are_attributes_of_the_class(folder):
    narrow = twinserve.run(TINY, {**BUSY, "policy.own.parameters.sequences_per_step_max": 2},
                           policy=f"{folder}/served.py:Served")
    assert narrow.summary["mean_ttft_ms"] > 2 * twinserve.run(
        TINY, BUSY, policy=f"{folder}/served.py:Served").summary["mean_ttft_ms"]


def test_each_replica_has_a_policy_of_its_own(folder):
    run = twinserve.run(TINY, {"system.replicas": 3}, policy=f"{folder}/served.py:Served")
    assert run.summary["completed"] == 100


# The rows are those of vLLM V1, which decides alike.
def test_a_study_runs_in_several_processes_and_the_rows_are_those_of_one(folder, package):
    policy = f"{folder}/served.py:Served"
    expected = twinserve.sweep(folder / "study.textproto", overrides={"policy": VLLM[len("policy="):]})
    for jobs in (1, 2):
        frame = twinserve.sweep(folder / "study.textproto", jobs=jobs, policy=policy)
        assert frame["digest"].tolist() == expected["digest"].tolist()
        assert frame["mean_ttft_ms"].tolist() == expected["mean_ttft_ms"].tolist()
        used = processes(folder)
        assert len(used) == 6 and os.getpid() not in used
    package("sweep", "study.textproto", "--policy", policy, "--jobs", 2, "--out", "out")
    table = pd.read_csv(folder / "out/results.csv")
    assert table["digest"].tolist() == expected["digest"].tolist()


def test_a_study_is_not_continued_with_another_file(folder, package):
    line = ["sweep", "study.textproto", "--policy", "served.py", "--out", "out"]
    package(*line)
    package(*line)
    (folder / "served.py").write_text(SOURCE + "# changed\n")
    refused = package(*line, check=False)
    assert refused.returncode == 2 and "out: holds another study" in refused.stderr


def test_a_failed_run_of_a_study_is_a_row_that_names_the_line(folder):
    failing = SOURCE.replace("done = step", "1 / (step.number < 5); done = step")
    (folder / "served.py").write_text(failing)
    with pytest.warns(twinserve.RunWarning):
        frame = twinserve.sweep(folder / "study.textproto", policy=f"{folder}/served.py")
    line = failing.split("1 / (")[0].count("\n") + 1
    assert set(frame["error"]) == {"policy Served: plan() failed in step 5: ZeroDivisionError: "
                                   f"division by zero (served.py, line {line})"}


def test_a_run_whose_process_is_killed_is_an_error(folder):
    (folder / "served.py").write_text(SOURCE.replace(
        "done = step", "os.kill(os.getpid(), 9); done = step"))
    with pytest.raises(twinserve.PolicyError, match="the process of a run was ended by signal 9"):
        twinserve.sweep(folder / "study.textproto", policy=f"{folder}/served.py")


def test_a_capacity_is_that_of_the_policy_that_decides_alike(folder):
    asked = {"vary": "workload.arrivals.rate", "between": (100, 20000), "replications": 3,
             "until": "p99_ttft_ms<=30", "doublings": 0}
    changes = {**BUSY, "workload.requests": 100, "workload.arrivals.kind": "poisson"}
    own = twinserve.capacity(TINY, overrides=changes, policy=f"{folder}/served.py", **asked)
    vllm = twinserve.capacity(TINY, overrides={**changes, "policy": VLLM[len("policy="):]}, **asked)
    pd.testing.assert_frame_equal(own, vllm)
    assert own["verdict"].tolist() == ["found"]
    assert own.attrs["probes"] == vllm.attrs["probes"]


@pytest.mark.parametrize("source, policy, what", [
    ("", "served.py", "policy.own.path: {}/served.py: has no policy; allowed: a file that defines a "
     "subclass of twinserve.Policy"),
    (SOURCE, "served.py:Other", "policy.own.class: {}/served.py: has no class Other; allowed: Served"),
    (SOURCE + "\nclass Other: pass\n", "served.py:Other",
     "policy.own.class: {}/served.py: Other is no subclass of twinserve.Policy; allowed: Served"),
    (SOURCE + "\nclass Other(Served): pass\n", "served.py",
     "policy.own.path: {}/served.py: has several policies; allowed: :CLASS behind the path: Served, "
     "Other"),
    ("import nothing_of_this_name\n", "served.py", "policy.own.path: {}/served.py: cannot be run: "
     "ModuleNotFoundError: No module named 'nothing_of_this_name' (line 1)"),
    ("class\n", "served.py", "policy.own.path: {}/served.py: cannot be run: SyntaxError: invalid "
     "syntax (served.py, line 1)"),
    (SOURCE.replace("512", '"512"', 1), "served.py", "policy Served: tokens_per_step_max is 512; "
     "allowed: an integer from 0; 0 = no limit"),
])
def test_a_mistake_in_the_file_is_one_line(folder, package, source, policy, what):
    (folder / "served.py").write_text(source)
    refused = package("run", "tiny.textproto", "--policy", policy, check=False)
    assert refused.returncode == 2 and refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert what.format(folder) in refused.stderr
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("change, what", [
    ("shape=3", "policy.own.parameters.shape: is no parameter of Served; nearest share; allowed: "
     "caches_prefixes, "),
    ("share=much", "policy.own.parameters.share: is much; allowed: a number"),
    ("greedy=1", "policy.own.parameters.greedy: is 1; allowed: true, false"),
])
def test_a_mistake_in_a_parameter_is_one_line(package, change, what):
    refused = package("run", "tiny.textproto", "--policy", "served.py", "--set",
                      f"policy.own.parameters.{change}", check=False)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert what in refused.stderr


def test_an_exception_of_a_run_is_one_line_on_the_command_line(folder, package):
    (folder / "served.py").write_text(SOURCE.replace("done = step", "raise KeyError('a'); done = step"))
    failed = package("run", "tiny.textproto", "--policy", "served.py", "--out", "out", check=False)
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith(
        "twinserve: policy Served: plan() failed in step 1: KeyError: 'a' (served.py, line ")


def test_studies_take_files_only(folder):
    with pytest.raises(twinserve.InputError, match="policy: is .*allowed in studies: what --policy"):
        twinserve.sweep(folder / "study.textproto", policy=twinserve.Policy)


def test_a_policy_of_the_caller_and_one_of_a_file_exclude_each_other(folder):
    own = {"policy": f'own {{ path: "{folder}/served.py" }}'}
    with pytest.raises(twinserve.InputError, match="policy.own: a policy of the caller decides"):
        twinserve.run(TINY, own, policy=twinserve.Policy)


def test_the_folder_is_free_of_leftovers_of_loading(folder):
    before = list(sys.path)
    twinserve.run(TINY, policy=pathlib.Path(folder, "served.py"))
    assert sys.path == before
