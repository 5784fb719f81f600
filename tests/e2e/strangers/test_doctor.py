"""`tanada doctor` knows every product, and what it proposes works."""

import json
import re
import subprocess

import pytest


def findings(installed, *options, **variables):
    done = installed.run(
        "tanada", "doctor", "--json", *options, env={**installed.environment(), **variables}
    )
    report = json.loads(done.stdout)
    assert (done.returncode == 0) == report["works"]
    return {each["topic"]: each for each in report["findings"]}


def test_the_proposed_provider_path_is_right(installed):
    before = findings(installed)["o2g"]
    if "not installed" in before["text"] or "not part of this build" in before["text"]:
        pytest.skip("o2g's provider was not built")
    (folder,) = re.findall("export FI_PROVIDER_PATH='(.*)'", before["remedy"])
    assert (
        before["state"] == "lacking"
        and findings(installed, FI_PROVIDER_PATH=folder)["o2g"]["state"] == "ok"
    )
    wrong = findings(installed, FI_PROVIDER_PATH=str(installed.bin))["o2g"]
    assert wrong["state"] == "broken" and folder in wrong["remedy"]


def test_what_an_openshmem_job_needs_is_found(installed):
    known = findings(installed)
    assert known["PMIx"]["state"] == (
        "ok" if list(installed.path.glob("lib*/**/libtanada_bootstrap_pmix.so")) else "lacking"
    )
    assert findings(installed, PATH=str(installed.bin))["launcher"]["state"] == "lacking"


def test_a_pool_and_its_key_are_tried(installed, tmp_path):
    key = tmp_path / "key"
    key.write_text(installed.must("tanada", "pool", "key", "new", "--namespaces", "runs"))
    key.chmod(0o600)
    with subprocess.Popen(
        [
            installed.bin / "tanada-poold",
            "--port",
            "0",
            "--size",
            "16MiB",
            "--segment-size",
            "2MiB",
            "--key-file",
            key,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=installed.environment(),
    ) as daemon:
        try:
            port = re.search(r"port (\d+)", daemon.stdout.readline())[1]
            url = f"pool://127.0.0.1:{port}/runs"
            known = findings(installed, "--pool", url, TND_POOL_KEY_FILE=str(key))
            assert (known["pool"]["state"], known["pool key"]["state"]) == ("ok", "ok"), known
            assert (
                findings(installed, "--pool", url)["pool"]["state"] == "broken"
            )  # without the key
        finally:
            daemon.terminate()
    assert findings(installed, "--pool", url)["pool"]["state"] == "broken"  # without the daemon


def test_a_key_that_others_may_read_is_a_fault(installed, tmp_path):
    (tmp_path / "key").write_text(
        installed.must("tanada", "pool", "key", "new", "--namespaces", "runs")
    )
    (tmp_path / "key").chmod(0o644)
    known = findings(installed, TND_POOL_KEY_FILE=str(tmp_path / "key"))["pool key"]
    assert known["state"] == "broken" and "chmod 600" in known["text"] + known["remedy"]
