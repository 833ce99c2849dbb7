"""aiperf drives an emulated H100: experiments/serving/run, and the commands of docs/serving.md.

`tools/setup load_generator` installs aiperf, in an environment of its own.
"""
import os
import pathlib
import re
import socket
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TWINSERVE = os.environ["TWINSERVE"]

if not (ROOT / "build/load_generator/bin/aiperf").exists():
    pytest.skip("aiperf is not installed (tools/setup load_generator)", allow_module_level=True)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_the_experiment_sees_what_the_engine_recorded(tmp_path):
    done = subprocess.run([ROOT / "experiments/serving/run", "--binary", TWINSERVE, "--out", tmp_path / "run",
                           "--requests", "24"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "requests: 24 of aiperf, 24 of the engine" in done.stdout
    rows = {line.split()[0]: [float(cell) for cell in line.split()[1:]]
            for line in done.stdout.splitlines() if re.match(r"\w+_\w+ ", line)}
    assert set(rows) == {"time_to_first_token", "inter_token_latency", "request_latency"}
    # The means over requests of what lies between tokens. A client cannot see less than the engine took,
    # but for tokens that it reads late; on a busy machine it may see much more.
    client, engine = rows["inter_token_latency"][:2]
    assert engine * 0.9 < client
    client, engine = rows["request_latency"][:2]
    assert engine * 0.99 < client


def test_the_five_commands_of_the_documentation_work(tmp_path):
    page = (ROOT / "docs/serving.md").read_text()
    commands = re.search(r"<!-- five commands.*?-->\n```sh\n(.*?)```", page, re.DOTALL)[1].splitlines()
    assert len(commands) == 5
    assert commands[0] == "tools/setup python load_generator"
    script = "\n".join(commands[1:]).replace("runs/", f"{tmp_path}/").replace("8000", str(free_port()))
    script = script.replace("build/release/apps/twinserve", TWINSERVE).replace("--request-count 64", "--request-count 12")
    done = subprocess.run(["bash", "-c", "set -e\n" + script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "aiperf").rglob("profile_export_aiperf.json"))
