"""twinserve.sweep on a Ray cluster, of which a node is lost."""
import collections
import csv
import os
import pathlib
import signal
import sys

import pandas as pd
import pytest
import twinserve

STUDY = """base: "base.textproto"
axis { path: "workload.arrivals.rate" from: 20 to: 60 steps: 12 }
axis { path: "policy.vllm_v1.max_num_seqs" values: [2, 16] }
replications: 3
derived { name: "share" value: "completed_rate / workload.arrivals.rate" }
"""


@pytest.fixture
def study(tiny, tmp_path):
    (tmp_path / "base.textproto").write_text(tiny.replace("requests: 100", "requests: 4000"))
    path = tmp_path / "study.textproto"
    path.write_text(STUDY)
    return path


@pytest.fixture
def cluster(monkeypatch):
    """One that has only a head without CPUs; nodes are added to it."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (tools/setup cluster)")
    ray = pytest.importorskip("ray", reason="ray is not installed (tools/setup cluster)")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={
        "num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 * 2**20,
        # A killed node is given up after 2 s.
        "_system_config": {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500,
                           "health_check_failure_threshold": 4}})
    yield made
    ray.shutdown()
    made.shutdown()


def kill_below(pid):
    """All processes that a process has started, and those that they have."""
    for listing in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listing.read_text().split()):
            kill_below(child)
            os.kill(child, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_lost_node_costs_no_point(study, tmp_path, cluster):
    def add_node():
        return cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)

    first = add_node()
    lost = []

    def lose_node(what, done, total):
        # The only node: the next task runs there. Its worker goes first, since one that has lost
        # its node still delivers what it finishes within a second.
        if not lost and done >= total / 4:
            lost.append(done)
            for process in first.all_processes["raylet"]:
                kill_below(process.process.pid)
            cluster.remove_node(first, allow_graceful=False)
            add_node()

    out = tmp_path / "cluster"
    frame = twinserve.sweep(study, cluster=cluster.address, out=out, progress=lose_node)
    assert 0 < lost[0] < len(frame) == 12 * 2 * 3
    assert len(frame.attrs["nodes"]) == 2
    assert sum(frame.attrs["nodes"].values()) == len(frame)
    twinserve.sweep(study, jobs=2, out=tmp_path / "one")
    for name in ("results.csv", "summary.csv"):
        assert (out / name).read_bytes() == (tmp_path / "one" / name).read_bytes(), name
    with open(out / "timing.csv", newline="") as file:
        made = collections.Counter((row["point"], row["replication"]) for row in csv.DictReader(file))
    assert len(made) == len(frame) and set(made.values()) == {1}
    pd.testing.assert_frame_equal(pd.read_parquet(out / "results.parquet"), frame)
    # Nothing is missing, and no node is left that could run it.
    again = twinserve.sweep(study, cluster=cluster.address, out=out)
    pd.testing.assert_frame_equal(again, frame)


def test_a_missing_module_names_its_installation(study, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="pip install"):
        twinserve.sweep(study, cluster="auto")


def test_run_directories_are_refused(study):
    pytest.importorskip("ray", reason="ray is not installed (tools/setup cluster)")
    study.write_text(study.read_text() + "runs: 0\n")
    with pytest.raises(twinserve.InputError, match="run directories"):
        twinserve.sweep(study, cluster="auto")
