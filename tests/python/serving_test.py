"""twinserve serve with the clients that people have: openai, huggingface_hub, Prometheus' parser.

`tools/setup clients` installs the clients.
"""
import csv
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

TWINSERVE = os.environ["TWINSERVE"]

def start(directory, *options):
    experiment = pathlib.Path(__file__).parents[2] / "experiments/serving/h100.textproto"
    ready = directory / "ready.json"
    process = subprocess.Popen(
        [TWINSERVE, "serve", str(experiment), "--set", "world.emulated.speed=20", "--port", "0",
         "--ready-file", str(ready), "--out", str(directory / "run"), *options],
        stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if ready.exists():
            return process, json.loads(ready.read_text())["port"]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    raise AssertionError(f"not ready: {process.communicate()[1]}")


def drain(process):
    """Ends the server as a system does that stops it; returns what it printed."""
    process.send_signal(signal.SIGTERM)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 0, messages
    return messages


@pytest.fixture
def server(tmp_path):
    process, port = start(tmp_path)
    yield port
    drain(process)


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.loads(response.read())


def test_the_openai_client_completes_chats_and_streams(server):
    openai = pytest.importorskip("openai", reason="openai is not installed (tools/setup clients)")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server}/v1", api_key="x", max_retries=0)
    model = client.models.list().data[0].id
    whole = client.completions.create(model=model, prompt="a b c", max_tokens=7)
    assert whole.usage.completion_tokens == 7 and whole.choices[0].finish_reason == "length"
    # A client that counts the tokens of the text again counts the same.
    again = post(server, "/tokenize", {"prompt": whole.choices[0].text, "add_special_tokens": False})
    assert again["count"] == 7
    chunks = list(client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "hello"}], max_tokens=9, stream=True,
        stream_options={"include_usage": True}, extra_body={"ignore_eos": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len([c for c in chunks if c.choices and c.choices[0].delta.content]) == 9
    assert chunks[-1].usage.completion_tokens == 9 and not chunks[-1].choices
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="other", prompt="a")
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=model, prompt="a", suffix="b")
    assert refused.value.param == "suffix"


def test_the_hugging_face_client_generates(server):
    hub = pytest.importorskip("huggingface_hub",
                              reason="huggingface_hub is not installed (tools/setup clients)")
    client = hub.InferenceClient(f"http://127.0.0.1:{server}")
    text = client.text_generation("hello there", max_new_tokens=5)
    assert isinstance(text, str) and text
    events = list(client.text_generation("hello", max_new_tokens=5, stream=True, details=True))
    assert len(events) == 5
    assert events[-1].generated_text == "".join(event.token.text for event in events)
    assert events[-1].details.finish_reason == "length"
    chat = client.chat_completion(messages=[{"role": "user", "content": "q"}], max_tokens=4)
    assert chat.usage.completion_tokens == 4


def test_prometheus_reads_the_metrics(server):
    parser = pytest.importorskip("prometheus_client.parser",
                                 reason="prometheus-client is not installed (tools/setup clients)")
    post(server, "/v1/completions", {"prompt": "a b", "max_tokens": 6})
    # The engine publishes its counts when it waits for the next step, a moment after the answer.
    last = time.monotonic() + 10
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{server}/metrics") as response:
            text = response.read().decode()
        families = {family.name: family for family in parser.text_string_to_metric_families(text)}
        samples = {(s.name, s.labels.get("le")): s.value
                   for f in families.values() for s in f.samples}
        if samples[("vllm:generation_tokens_total", None)] >= 6 or time.monotonic() > last:
            break
    assert samples[("vllm:generation_tokens_total", None)] == 6
    assert samples[("vllm:time_to_first_token_seconds_count", None)] == 1
    assert ("vllm:request_params_n_bucket", "1.0") in samples
    assert families["vllm:kv_cache_usage_perc"].type == "gauge"


def test_send_times_say_when_each_token_was_due_and_when_it_was_sent(tmp_path):
    began = time.monotonic_ns()
    process, port = start(tmp_path, "--send-times", str(tmp_path / "sends.csv"))
    body = {"prompt": "a", "max_tokens": 20, "stream": True, "ignore_eos": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json", "X-Request-Id": "one"})
    with urllib.request.urlopen(request) as response:
        assert response.read().count(b"data: {") == 20
    drain(process)
    ended = time.monotonic_ns()
    with open(tmp_path / "sends.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["request"] for row in rows] == ["one"] * 20
    due = [int(row["due_ns"]) for row in rows]
    assert began < due[0] and due == sorted(set(due))
    assert all(int(row["due_ns"]) <= int(row["sent_ns"]) < ended for row in rows)


def test_a_client_that_resets_its_stream_frees_its_blocks(server):
    body = json.dumps({"prompt": "a", "max_tokens": 4000, "stream": True, "ignore_eos": True})
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server)) as client:
            client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                           f"application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            assert b"data: " in client.recv(65536)
            # With linger time 0, closing sends a reset.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    for _ in range(100):
        with urllib.request.urlopen(f"http://127.0.0.1:{server}/load") as response:
            if json.loads(response.read())["server_load"] == 0:
                return
        time.sleep(0.1)
    raise AssertionError("requests of clients that left still run")


def test_a_signal_drains_and_the_run_replays(tmp_path):
    process, port = start(tmp_path)
    body = {"prompt": "a b c d", "max_tokens": 50}
    post(port, "/v1/completions", body)
    drain(process)
    with pytest.raises(urllib.error.URLError):
        post(port, "/v1/completions", body)
    replay = subprocess.run([TWINSERVE, "replay", str(tmp_path / "run")], capture_output=True, text=True)
    assert replay.returncode == 0, replay.stdout + replay.stderr


def test_an_address_that_others_reach_is_warned_of_without_a_key(tmp_path):
    process, _ = start(tmp_path, "--host", "0.0.0.0")
    assert "no API key is set" in drain(process)
