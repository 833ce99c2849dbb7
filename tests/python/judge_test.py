"""twinserve judge with policies in Python: honest ones, the cheats of experiments/policy_search, and
the search, which is killed and goes on."""
import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SEARCH = ROOT / "experiments" / "policy_search"
TWINSERVE = f"{sys.executable} -m twinserve"
ENVIRONMENT = {**os.environ, "TWINSERVE": TWINSERVE}
HONEST = """
import twinserve

class Served(twinserve.Policy):
    first_come_first_served = False

    def plan(self, step):
        done = step.schedule_decodes(self.running)
        for request in self.running[done:]:
            tokens = min(request.left, step.tokens_left)
            if tokens > 0 and step.grow(request, request.computed + tokens):
                step.schedule(request, tokens)
            elif tokens > 0 and request is not self.running[-1]:
                step.preempt(self.running[-1])
                break
        # The shortest prompt first, but nobody waits for more than 15 s.
        for request in sorted(self.waiting,
                              key=lambda r: (step.now_s - r.arrival_s < 15, r.prompt_tokens)):
            tokens = min(request.known, step.tokens_left)
            if tokens == 0 or step.sequences_left == 0:
                break
            if step.blocks_for(request.known) > step.free_blocks:
                break
            step.admit(request)
            assert step.grow(request, tokens)
            step.schedule(request, tokens)
"""


ONE_ROUND = ("--seed", 3, "--hostile", 0, "--cells", 1, "--rounds", 1, "--rounds-max", 1)


def judge(*words, within=(), folder=ROOT, **variables):
    """Exit code and verdicts. `within`: words before the command."""
    done = subprocess.run([*within, sys.executable, "-m", "twinserve", "judge", *map(str, words)],
                          cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True,
                          check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_a_budget_that_two_equal_runs_use_up_is_a_refusal(tmp_path):
    slow = HONEST.replace("import twinserve\n", "import time\n\nimport twinserve\n").replace(
        "    def plan(self, step):\n",
        "    def plan(self, step):\n        time.sleep(0.4 if step.number == 5 else 0)\n")
    (tmp_path / "slow.py").write_text(slow)
    code, verdicts, errors = judge(tmp_path / "slow.py", "--seed", 3, "--hostile", 0, "--budget", 0.1,
                                   "--cells", 1)
    assert code == 1 and verdicts[0]["gate"] == "G7", errors + json.dumps(verdicts)


def test_an_honest_policy_is_better_with_97_percent(tmp_path):
    (tmp_path / "served.py").write_text(HONEST)
    code, verdicts, errors = judge(tmp_path / "served.py", "--seed", 3, "--hostile", 100)
    assert code == 0, errors + json.dumps(verdicts)
    verdict = verdicts[0]
    assert verdict["valid"] and verdict["policy"]["language"] == "python"
    assert verdict["against"][0]["verdict"] == "better"
    assert verdict["cpu_s"] < 60
    assert {cell["workload"] for cell in verdict["cells"]} == {
        "bursts", "chat", "code", "long_prompts", "two_tenants", "wide_context"}
    assert all(bound["ratio"] >= 1 for bound in verdict["bounds"])


def test_every_cheat_is_answered_as_the_table_says():
    done = subprocess.run([sys.executable, SEARCH / "caught.py", "--check"], cwd=ROOT,
                          env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_leaves_nothing_to_the_next_one(tmp_path):
    # Each run has a process of its own, in which the file is loaded again.
    (tmp_path / "counts.py").write_text(HONEST + """
    runs = 0
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        Served.runs += 1
        assert Served.runs == 1
""")
    code, verdicts, errors = judge(tmp_path / "counts.py", "--seed", 3, "--hostile", 0, "--cells", 1,
                                   "--rounds", 2, "--rounds-max", 2)
    assert code == 0, errors + json.dumps(verdicts)


def test_a_policy_may_import_what_computes(tmp_path):
    # Modules that look at sockets, processes or threads when they are imported, and the one beside.
    modules = ("asyncio", "concurrent.futures", "ctypes", "multiprocessing", "numpy", "pandas",
               "random", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "uuid")
    (tmp_path / "beside.py").write_text("ORDER = 1\n")
    (tmp_path / "served.py").write_text("\n".join(f"import {name}" for name in (*modules, "beside"))
                                        + HONEST + "    order = beside.ORDER\n")
    code, verdicts, errors = judge(tmp_path / "served.py", *ONE_ROUND)
    assert code == 0, errors + json.dumps(verdicts)
    assert verdicts[0]["judge"]["sandbox"] == "namespaces" and errors == ""


def test_of_the_home_directory_a_policy_sees_its_file_alone(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "served.py").write_text(HONEST + """
    def begin(self, block_size, blocks):
        super().begin(block_size, blocks)
        assert not pathlib.Path(__file__).with_name("secret.txt").exists()
""".replace("assert not", "import pathlib; assert not"))
    code, verdicts, errors = judge(tmp_path / "served.py", *ONE_ROUND, HOME=str(tmp_path))
    assert code == 0, errors + json.dumps(verdicts)
    # In another folder it sees what lies beside it.
    _, verdicts, _ = judge(tmp_path / "served.py", *ONE_ROUND)
    assert "AssertionError" in verdicts[0]["reason"]


def test_without_namespaces_the_verdict_says_so(tmp_path):
    # In a namespace of users that may not make further ones.
    within = ("unshare", "--user", "--map-root-user", "sh", "-c",
              'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh")
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs a namespace of users")
    (tmp_path / "served.py").write_text(HONEST)
    code, verdicts, errors = judge(tmp_path / "served.py", *ONE_ROUND, within=within)
    assert code == 0 and verdicts[0]["judge"]["sandbox"] == "unsandboxed"
    assert "ran unsandboxed: unshare: No space left on device" in errors
    # The list of system calls still holds.
    code, verdicts, errors = judge(SEARCH / "cheats" / "local_socket.py", *ONE_ROUND, within=within)
    assert verdicts[0]["reason"] == "made a system call that policies may not make: socket"


def test_several_policies_get_a_verdict_each_and_one_that_is_invalid_fails(tmp_path):
    (tmp_path / "served.py").write_text(HONEST)
    (tmp_path / "broken.py").write_text("def f(:\n")
    code, verdicts, _ = judge(tmp_path / "broken.py", tmp_path / "served.py", "--quick")
    assert code == 1
    assert [verdict["gate"] for verdict in verdicts] == ["G0", None]
    assert "SyntaxError" in verdicts[0]["reason"]
    assert [verdict["judge"]["submission"] for verdict in verdicts] == [1, 2]


def test_a_file_whose_name_is_no_text_has_a_verdict_of_its_own(tmp_path):
    (tmp_path / "served.py").write_text(HONEST)
    name = os.path.join(os.fsencode(tmp_path), b"no_text_\xff.py")
    pathlib.Path(os.fsdecode(name)).write_text("raise ValueError('\\udcff')\n")
    code, verdicts, errors = judge(os.fsdecode(name), tmp_path / "served.py", "--quick")
    assert code == 1, errors
    assert [verdict["gate"] for verdict in verdicts] == ["G0", None], errors


def hash_of(*words, folder):
    """The hash in the verdict on a policy that cannot be loaded."""
    _, verdicts, errors = judge(*words, "--quick", folder=folder)
    assert verdicts and verdicts[0]["gate"] == "G0", errors + json.dumps(verdicts)
    return verdicts[0]["policy"]["hash"]


def test_the_hash_is_that_of_the_file_and_of_what_it_imports_beside_itself(tmp_path):
    (tmp_path / "rules.py").write_text("import json\nraise ValueError\n")
    alone = hash_of("rules.py", folder=tmp_path)
    # FNV-1a of the file.
    expected = 0xCBF29CE484222325
    for byte in b"import json\nraise ValueError\n":
        expected = (expected ^ byte) * 0x100000001B3 % 2**64
    assert alone == f"{expected:016x}"
    (tmp_path / "rules.py").write_text("import helper\nraise ValueError\n")
    (tmp_path / "helper.py").write_text("A = 1\n")
    one = hash_of("rules.py", folder=tmp_path)
    (tmp_path / "unused.py").write_text("A = 1\n")
    assert hash_of("rules.py", folder=tmp_path) == one
    (tmp_path / "helper.py").write_text("from deeper import A\n")
    two = hash_of("rules.py", folder=tmp_path)
    (tmp_path / "deeper.py").write_text("A = 1\n")
    assert len({alone, one, two, hash_of("rules.py", folder=tmp_path)}) == 4


def test_a_scheduler_in_a_module_has_the_hash_of_its_package(tmp_path):
    # No code of it runs in the judge: the release is not needed, and the module would say so.
    package = tmp_path / "rules"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "mine.py").write_text("from .weights import W\nraise SystemExit(7)\n")
    (package / "weights.py").write_text("W = 1\n")
    words = ("rules.mine:Mine", "--engine", "vllm==0.33.0")
    one = hash_of(*words, folder=tmp_path)
    assert len(one) == 16
    (package / "weights.py").write_text("W = 2\n")
    two = hash_of(*words, folder=tmp_path)
    (package / "__init__.py").write_text("import os\n")
    assert len({one, two, hash_of(*words, folder=tmp_path)}) == 3


@pytest.mark.parametrize("judged_set", ["judge", "search"])
def test_a_workload_of_each_set_waits_for_blocks_and_not_for_places_in_the_batch(tmp_path, judged_set):
    folder = SEARCH / judged_set
    with open(folder / "systems.csv", encoding="utf-8", newline="") as file:
        systems = list(csv.DictReader(file))
    with open(folder / "capacity.csv", encoding="utf-8", newline="") as file:
        capacities = {(row["workload"], row["system"]): float(row["requests_per_s"])
                      for row in csv.DictReader(file)}
    for system in systems:
        changes = (f"system.model=\"{system['model']}\"", f"system.hardware=\"{system['hardware']}\"",
                   f"cost={system['cost']}", "seed=1",
                   f"workload.arrivals.rate={1.5 * capacities['wide_context', system['system']]}")
        out = tmp_path / system["system"]
        subprocess.run([sys.executable, "-m", "twinserve", "run", folder / "wide_context.textproto",
                        *(word for change in changes for word in ("--set", change)), "--out", out],
                       check=True, capture_output=True)
        summary = json.loads((out / "summary.json").read_text())
        # The default policy's batch takes 256 requests; blocks for far fewer are there.
        assert summary["max_kv_used_share"] > 0.99 and summary["max_running"] < 64
        assert summary["mean_waiting"] > 2


def test_the_search_goes_on_where_it_was_killed(tmp_path):
    def search(candidates):
        done = subprocess.run(
            [sys.executable, SEARCH / "search.py", "--candidates", str(candidates), "--out", tmp_path],
            cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "log.jsonl").read_text(), json.loads(done.stdout.split("CPU s\n")[1])

    first, _ = search(3)
    second, verdict = search(7)
    assert second.startswith(first) and len(second.splitlines()) == 7
    assert verdict["valid"]
    weights = json.loads(second.splitlines()[2])["weights"]
    assert len(weights) == 5
