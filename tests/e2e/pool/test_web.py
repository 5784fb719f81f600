"""The pool's metrics and page: a server with invented reports, Prometheus' own parser and a real
browser.
"""

import json
import os
import pathlib
import subprocess
import urllib.request

import browser
import pytest
from commands import TANADA, Daemon, environment, pool, wait_for
from prometheus_client.parser import text_string_to_metric_families

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
SERVED = BUILD / "bin/pool_web_served"
LIMIT_S = 30
NASTY = 'a"} 1\n\\<img src=x onerror=document.title="owned">'


class Served:
    def __init__(self, folder):
        self.file = folder / "report.json"
        self.report = {
            "backing": "flash",
            "capacity": 64 << 30,
            "used": 23 << 30,
            "memory_used": 23 << 30,
            "memory_capacity": 64 << 30,
            "owned": 25 << 30,
            "object_count": 1234,
            "commits": 5678,
            "committed_size": 90 << 30,
            "opens": 4321,
            "evictions": 3,
            "errors": 2,
            "uptime_s": 5000.25,
            "written_size": 100 << 30,
            "read_size": 50 << 30,
            "namespaces": [
                {
                    "name": "runs",
                    "used": 20 << 30,
                    "object_count": 1200,
                    "quota": 32 << 30,
                    "owned": 22 << 30,
                    "segment_count": 352,
                },
                {"name": NASTY, "used": 3 << 30, "object_count": 34, "owned": 3 << 30},
            ],
            "clients": [
                {
                    "peer": "10.0.0.7:4567",
                    "namespace": "runs",
                    "written_size": 9 << 30,
                    "read_size": 1 << 20,
                    "connected_s": 4000,
                }
            ],
        }
        self.write()
        self.process = subprocess.Popen(
            [SERVED, self.file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def write(self, **changes):
        self.report |= changes
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.report))
        new.replace(self.file)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=LIMIT_S) as answer:
            return answer.headers, answer.read().decode()

    def close(self):
        self.process.stdin.close()
        self.process.wait(LIMIT_S)


@pytest.fixture
def served(tmp_path):
    server = Served(tmp_path)
    yield server
    server.close()


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(text, name, **labels):
    (sample,) = [
        sample
        for family in families(text).values()
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    return sample.value


def test_metrics_are_read_by_prometheus_own_parser(served):
    headers, text = served.get("/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert value(text, "tanada_pool_capacity_bytes") == 64 << 30
    assert value(text, "tanada_pool_written_bytes_total", path="tcp") == 100 << 30
    assert value(text, "tanada_pool_namespace_quota_bytes", namespace="runs") == 32 << 30
    assert value(text, "tanada_pool_namespace_used_bytes", namespace=NASTY) == 3 << 30
    assert value(text, "tanada_pool_owned_bytes") == 25 << 30
    assert value(text, "tanada_pool_namespace_owned_bytes", namespace="runs") == 22 << 30
    assert value(text, "tanada_pool_namespace_segments", namespace="runs") == 352
    assert value(text, "tanada_pool_clients", path="tcp") == 1
    assert value(text, "tanada_pool_uptime_seconds") == 5000.25
    for name, family in families(text).items():
        assert (
            name.startswith("tanada_pool_")
            and family.documentation
            and family.type in ("gauge", "counter")
        ), name
        assert all(
            sample.name.endswith("_total") == (family.type == "counter")
            for sample in family.samples
        )


def test_the_parser_would_notice_a_label_that_is_not_escaped(served):
    """The planted fault."""
    _, text = served.get("/metrics")
    with pytest.raises(Exception):
        families(text.replace('\\"', '"'))


def test_a_report_that_fails_is_an_error_and_the_server_goes_on(served):
    served.file.write_text("{")
    with pytest.raises(urllib.error.HTTPError, match="500"):
        served.get("/metrics")
    served.write()
    assert json.loads(served.get("/stats.json")[1])["used"] == 23 << 30


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if not browser.find():
        pytest.skip("no Chromium here")
    page = browser.Browser(tmp_path_factory.mktemp("chromium"))
    yield page
    page.close()


def text_of(page, name):
    return page.evaluate(f"document.getElementById('{name}').textContent")


def test_the_page_shows_the_pool(served, chromium, tmp_path):
    chromium.open(served.url)
    chromium.wait("document.getElementById('used').textContent === '23.0 GiB'")
    assert text_of(chromium, "capacity") == "of 64.0 GiB, 2.0 GiB owned and unused"
    assert text_of(chromium, "objects") == "1,234"
    assert text_of(chromium, "about").endswith("flash · up 1 h 23 min")
    assert chromium.evaluate("document.getElementById('usage').style.width") == "35.9%"
    rows = chromium.evaluate(
        "[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(c => c.textContent))"
    )
    assert rows == [
        ["runs", "20.0 GiB", "22.0 GiB", "32.0 GiB", "1,200"],
        [NASTY, "3.0 GiB", "3.0 GiB", "–", "34"],
        ["tcp", "100.0 GiB", "50.0 GiB"],
        ["10.0.0.7:4567", "runs", "tcp", "9.0 GiB", "1.0 MiB", "1 h 6 min"],
    ]
    assert chromium.evaluate("document.title") == "Tanada pool", "a name became markup"
    assert chromium.problems == []


def test_the_page_shows_the_servers_of_a_cluster(served, chromium):
    chromium.open(served.url)
    chromium.wait("document.getElementById('used').textContent === '23.0 GiB'")
    assert chromium.evaluate("document.getElementById('cluster').hidden") is True
    server = {"state": "up", "problem": "", "primaries": 128, "copies": 256, "joining": 0}
    cluster = {
        "copies": 2,
        "missing": 3,
        "silence_s": 12,
        "repaired_size": 5 << 20,
        "servers": [
            server | {"name": "10.0.0.1:7440"},
            server | {"name": NASTY, "state": "away", "problem": NASTY, "joining": 7},
        ],
    }
    served.write(cluster=cluster)
    chromium.wait("document.getElementById('cluster').hidden === false")
    text = text_of(chromium, "copies")
    assert text.startswith("3 copies missing · 0 partitions offline · 0 lost · 5.0 MiB copied")
    assert text.endswith("as of 12 s ago: etcd does not answer")
    rows = chromium.evaluate(
        "[...document.querySelectorAll('#servers tr')]"
        ".map(r => [...r.cells].map(c => c.textContent))"
    )
    assert rows == [
        ["10.0.0.1:7440", "up", "", "128", "256", "0"],
        [NASTY, "away", NASTY, "128", "256", "7"],
    ]
    _, metrics = served.get("/metrics")
    assert value(metrics, "tanada_pool_cluster_servers", state="away") == 1
    assert value(metrics, "tanada_pool_cluster_repaired_bytes_total") == 5 << 20
    assert chromium.problems == []


def test_the_page_draws_throughput(served, chromium):
    chromium.open(served.url)
    chromium.wait("document.getElementById('used').textContent !== ''")
    for second in range(1, 5):
        rate = 3 << 30
        served.write(
            uptime_s=5000.25 + second,
            written_size=(100 << 30) + second * rate,
            read_size=(50 << 30) + second * (1 << 20),
        )
        chromium.wait(f"before !== null && before.uptime_s === {5000.25 + second}")
        assert text_of(chromium, "written-rate") == "3.0 GiB/s"
        assert text_of(chromium, "read-rate") == "1.0 MiB/s"
    assert chromium.evaluate("document.querySelector('#chart path.written').getTotalLength()") > 5
    labels = chromium.evaluate(
        "[...document.querySelectorAll('#chart text')].map(text => text.textContent)"
    )
    assert "4.0 GiB/s" in labels and "now" in labels
    # The position of 3 GiB/s on an axis to 4 GiB/s: three quarters.
    box = chromium.evaluate(
        "(b => [b.y, b.height])(document.querySelector('#chart path.written').getBBox())"
    )
    assert abs(box[0] - (210 - 198 * 0.75)) < 1 and box[1] < 1
    folder = os.environ.get("TANADA_SCREENSHOTS")
    if folder:
        chromium.screenshot(pathlib.Path(folder, "pool-page.png"))


def test_a_daemon_that_starts_anew_gives_no_rate(served, chromium):
    chromium.open(served.url)
    chromium.wait("before !== null")
    served.write(uptime_s=1, written_size=1 << 40)
    chromium.wait("before !== null && before.uptime_s === 1")
    assert text_of(chromium, "written-rate") == "–"


def test_a_daemon_that_is_gone_is_told_and_found_again(served, chromium):
    chromium.open(served.url)
    chromium.wait("before !== null")
    served.file.write_text("{")
    chromium.wait("getComputedStyle(document.getElementById('trouble')).display === 'block'")
    assert "the daemon answers 500" in text_of(chromium, "trouble")
    served.write()
    chromium.wait("getComputedStyle(document.getElementById('trouble')).display === 'none'")


@pytest.fixture
def daemon_with_page(tmp_path):
    with Daemon(tmp_path, "--web", "--quota", "runs=64MiB") as started:
        yield started


def metrics_of(daemon):
    with urllib.request.urlopen(daemon.web + "/metrics", timeout=LIMIT_S) as answer:
        return answer.read().decode()


def test_what_a_daemon_did_is_in_its_metrics(daemon_with_page):
    daemon = daemon_with_page
    url = daemon.url("runs/a")
    assert pool("cp", "-", url, stdin="x" * 1_000_000).returncode == 0
    over_socket = {"TND_POOL_SHARED_MEMORY": "0"}
    assert pool("cp", "-", url, stdin="y" * 2_000_000, variables=over_socket).returncode == 0
    assert pool("cat", url, variables=over_socket).returncode == 0
    text = metrics_of(daemon)
    labels = {"version": "0.1.0", "backing": "dram", "durability": "none"}
    assert value(text, "tanada_pool_info", **labels) == 1
    assert value(text, "tanada_pool_capacity_bytes") == 512 << 20
    assert (
        value(text, "tanada_pool_objects")
        == value(text, "tanada_pool_namespace_objects", namespace="runs")
        == 1
    )
    assert (
        2_000_000
        <= value(text, "tanada_pool_namespace_used_bytes", namespace="runs")
        <= value(text, "tanada_pool_used_bytes")
    )
    assert value(text, "tanada_pool_namespace_quota_bytes", namespace="runs") == 64 << 20
    assert (
        value(text, "tanada_pool_commits_total") == 2
        and value(text, "tanada_pool_committed_bytes_total") == 3_000_000
    )
    assert value(text, "tanada_pool_written_bytes_total", path="shared-memory") == 1_000_000
    assert (
        sum(value(text, "tanada_pool_written_bytes_total", path=path) for path in ("unix", "tcp"))
        == 2_000_000
    )
    assert (
        sum(value(text, "tanada_pool_read_bytes_total", path=path) for path in ("unix", "tcp"))
        == 2_000_000
    )
    assert value(text, "tanada_pool_uptime_seconds") > 0


def test_reads_by_mapping_are_in_its_metrics_and_on_its_page(daemon_with_page, chromium):
    """Only the reader counts them, and reports them at its end at the latest."""
    url = daemon_with_page.url("runs/a")
    assert pool("cp", "-", url, stdin="x" * (3 << 20)).returncode == 0
    assert (
        value(metrics_of(daemon_with_page), "tanada_pool_read_bytes_total", path="shared-memory")
        == 0
    )
    assert pool("cat", url).returncode == 0
    wait_for(
        lambda: (
            value(
                metrics_of(daemon_with_page), "tanada_pool_read_bytes_total", path="shared-memory"
            )
            == 3 << 20
        ),
        "the reads of a client that has gone",
    )
    chromium.open(daemon_with_page.web)
    row = chromium.wait(
        "(row => row && [...row.cells].map(cell => cell.textContent))(document.querySelector('#paths tr'))"
    )
    assert row == ["shared-memory", "3.0 MiB", "3.0 MiB"] and chromium.problems == []


def test_a_daemons_page_shows_a_client(daemon_with_page, chromium):
    """A client that stays connected: `top`."""
    url = daemon_with_page.url("runs")
    watching = subprocess.Popen(
        [TANADA, "pool", "top", url], stdout=subprocess.DEVNULL, env=environment()
    )
    try:
        chromium.open(daemon_with_page.web)
        row = chromium.wait(
            "(row => row && row.cells[1].textContent && [...row.cells].map(cell => cell.textContent))"
            "(document.querySelector('#peers tr'))"
        )  # even without a namespace it performs the handshake
        assert row[1:3] == ["runs", "shared-memory"]
        assert text_of(chromium, "clients") == "1" and chromium.problems == []
    finally:
        watching.kill()
        watching.wait(LIMIT_S)


def test_without_being_asked_a_daemon_serves_no_page(tmp_path):
    with Daemon(tmp_path) as daemon:
        assert daemon.web is None and "http" not in (tmp_path / "log").read_text()


def test_a_port_of_the_page_that_is_taken_is_told(daemon_with_page, tmp_path):
    folder = tmp_path / "second"
    folder.mkdir()
    port = daemon_with_page.web.rpartition(":")[2]
    with pytest.raises(AssertionError, match="EBUSY"):
        Daemon(folder, "--web-port", port).start()
