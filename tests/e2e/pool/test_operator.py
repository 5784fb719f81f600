"""What operators use: reports to the service manager, credentials, logs, metrics from other nodes,
and the dashboard and alerts that are installed.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from commands import BUILD, TANADA, Daemon, environment, pool, wait_for
from prometheus_client.parser import text_string_to_metric_families

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOKEN = "0123456789abcdef0123456789abcdef"
LIMIT_S = 60


def start_refused(*options, **variables):
    """The output of a daemon that must not start."""
    done = subprocess.run(
        [BUILD / "bin/tanada-poold", "--port", "0", "--size", "16MiB", *options],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 1, done.stderr
    return done.stderr


def secret_file(path, text):
    path.write_text(text)
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    return path


def test_the_service_manager_hears_of_start_reload_and_stop(tmp_path, monkeypatch):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.settimeout(LIMIT_S)
    manager.bind(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    daemon = Daemon(tmp_path, size="16MiB")
    with daemon:
        ready = manager.recv(4096).decode()
        assert ready.startswith("READY=1\nSTATUS=127.0.0.1, port ")
        daemon.send(signal.SIGHUP)
        assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", manager.recv(4096).decode())
        assert manager.recv(4096) == b"READY=1"
        daemon.send(signal.SIGTERM)
        assert manager.recv(4096).startswith(b"STOPPING=1\n")


def test_keys_are_a_credential_of_the_unit(tmp_path, monkeypatch):
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    keys = secret_file(credentials / "keys", pool("key", "new", "--namespaces", "runs").stdout)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    with Daemon(tmp_path, size="16MiB") as daemon:
        refused = pool("ls", daemon.url("runs"))
        assert refused.returncode != 0
        admitted = pool("ls", daemon.url("runs"), variables={"TND_POOL_KEY_FILE": str(keys)})
        assert admitted.returncode == 0, admitted.stderr


def test_lines_of_the_log_are_json(tmp_path):
    with Daemon(tmp_path, "--log", "json", "--web", size="16MiB") as daemon:
        with socket.create_connection((daemon.host, daemon.port)) as client:
            client.sendall(b'\xff\x1b"nonsense\n' * 20)
            client.shutdown(socket.SHUT_WR)
            client.recv(100)
        wait_for(lambda: '"warning"' in (tmp_path / "log").read_text(), "a refusal in the log")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {"time", "level", "pid", "thread", "message"} <= set(lines[0])
    assert any("metrics and page at http://127.0.0.1:" in line["message"] for line in lines)
    assert any(line["level"] == "warning" for line in lines)
    assert lines[-1]["message"] == "ending"


def test_a_format_that_does_not_exist_is_refused():
    assert "log is xml: give text or json" in start_refused(TND_POOLD_LOG="xml")


def status_of(url, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=LIMIT_S
        ) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_metrics_for_other_nodes_need_a_token(tmp_path):
    assert "needs a token" in start_refused("--web-listen", "0.0.0.0")
    token = secret_file(tmp_path / "token", TOKEN + "\n")
    with Daemon(
        tmp_path, "--web-listen", "0.0.0.0", "--web-token-file", token, size="16MiB"
    ) as daemon:
        for page in ("/", "/metrics", "/stats.json"):
            assert status_of(daemon.web + page) == 401
            assert status_of(daemon.web + page, TOKEN[:-1]) == 401
            assert status_of(daemon.web + page, TOKEN) == 200


def test_a_client_at_the_port_of_the_page_ends_at_once(tmp_path):
    with Daemon(tmp_path, "--web", size="16MiB") as daemon:
        started = time.monotonic()
        done = pool("stat", "pool" + daemon.web.removeprefix("http") + "/runs")
        assert time.monotonic() - started < 4, "the client's time limit is longer"
    assert done.returncode != 0 and "is it the port of the web page?" in done.stderr


def test_a_token_that_others_can_read_or_guess_is_refused(tmp_path):
    token = secret_file(tmp_path / "token", TOKEN)
    token.chmod(0o644)
    assert "others may read it" in start_refused("--web", "--web-token-file", token)
    secret_file(token, "short")
    assert "is no token" in start_refused("--web", "--web-token-file", token)
    assert "No such file" in start_refused("--web", "--web-token-file", tmp_path / "none")


def metrics_of(daemon):
    with urllib.request.urlopen(f"{daemon.web}/metrics", timeout=LIMIT_S) as answer:
        return answer.read().decode()


def samples_of(text, name, **labels):
    return [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def test_histograms_have_durations_and_sizes_of_requests(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3 << 20))
    with Daemon(tmp_path, "--web", "--open", size="64MiB") as daemon:
        before = sum(s.value for s in samples_of(
            metrics_of(daemon), "tanada_pool_request_duration_seconds_count"))  # fmt: skip
        assert before == 0
        for _ in range(3):
            assert pool("cp", source, daemon.url("runs/a")).returncode == 0
        text = metrics_of(daemon)
    counts = samples_of(text, "tanada_pool_request_duration_seconds_count")
    assert sum(sample.value for sample in counts) >= 6
    for sample in counts:
        request = sample.labels["request"]
        buckets = samples_of(text, "tanada_pool_request_duration_seconds_bucket", request=request)
        values = [bucket.value for bucket in buckets]
        assert values == sorted(values) and values[-1] == sample.value
        assert buckets[-1].labels["le"] == "+Inf"
    (commits,) = samples_of(
        text, "tanada_pool_request_duration_seconds_sum", request="commit"
    ) or samples_of(text, "tanada_pool_request_duration_seconds_sum", request="put")
    assert 0 <= commits.value < LIMIT_S


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (package prometheus)")
def test_promtool_finds_nothing_in_metrics_and_alerts(tmp_path):
    with Daemon(tmp_path, "--web", size="16MiB") as daemon:
        text = metrics_of(daemon)
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    planted = text.replace("_commits_total", "_commits")
    wrong = subprocess.run(
        ["promtool", "check", "metrics"],
        input=planted, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert wrong.returncode != 0 and "_total" in wrong.stdout + wrong.stderr
    rules = ROOT / "packaging/prometheus/tanada-pool.rules.yml"
    subprocess.run(["promtool", "check", "rules", rules], check=True, timeout=LIMIT_S)


def test_dashboard_and_alerts_name_metrics_that_exist(tmp_path):
    with Daemon(tmp_path, "--web", size="16MiB") as daemon:
        known = {
            sample.name
            for family in text_string_to_metric_families(metrics_of(daemon))
            for sample in family.samples
        }
    source = (ROOT / "src/products/pool/web/metrics.cc").read_text()
    known |= {
        f"tanada_pool_{name}" for name in re.findall(r'"((?:cluster|namespace)_\w+)"', source)
    }
    dashboard = (ROOT / "packaging/grafana/tanada-pool.json").read_text()
    panels = json.loads(dashboard)["panels"]
    assert len({panel["title"] for panel in panels}) == len(panels) == 18
    rules = (ROOT / "packaging/prometheus/tanada-pool.rules.yml").read_text()
    named = set(re.findall(r"tanada_pool_\w+", dashboard + rules))
    assert len(named) > 15 and named <= known, named - known


def test_doctor_has_a_remedy_for_a_pool_that_refuses(tmp_path):
    keys = secret_file(tmp_path / "keys", pool("key", "new", "--namespaces", "runs").stdout)
    with Daemon(tmp_path, "--key-file", keys, size="16MiB") as daemon:
        url = daemon.url("runs")
        refused = subprocess.run(
            [TANADA, "doctor", "--pool", url], env=environment(),
            capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
    assert refused.returncode == 1 and "TND_POOL_KEY_FILE" in refused.stdout
    stopped = subprocess.run(
        [TANADA, "doctor", "--pool", url], env=environment(),
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert stopped.returncode == 1 and "start tanada-poold there" in stopped.stdout
    assert refused.stderr == stopped.stderr == ""
