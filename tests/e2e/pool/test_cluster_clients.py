"""The clients of a pool on a cluster, with and without the loss of a server."""

import subprocess

import etcd
import pytest
from cluster_processes import Cluster
from commands import BUILD, LIMIT_S, environment, pool


@pytest.fixture(scope="module", params=["copies", pytest.param("erasure", marks=pytest.mark.slow)])
def url(request, tmp_path_factory):
    """Of a namespace. Objects of more than 1 MiB are striped, or have an erasure code."""
    try:
        running = Cluster(tmp_path_factory.mktemp("cluster"), 3, "--stripe", "1MiB")
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    try:
        running.start()
        if request.param == "erasure":
            done = pool("cluster", "set", running.location(""), "test", "--erasure", "2+1")
            assert done.returncode == 0, done.stderr
        yield running.location("test")
    finally:
        running.end()


@pytest.mark.parametrize("program", ["store_contract_pool", "swap_pool", "gfile_pool_contract"])
def test_a_store_on_a_cluster(url, program):
    done = subprocess.run(
        [BUILD / "bin" / program, "--gtest_filter=*cluster*"],
        env=environment(TANADA_TEST_POOL_URL=url, TND_PLUGIN_PATH=str(BUILD / "lib")),
        capture_output=True,
        text=True,
        timeout=3 * LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[  PASSED  ]" in done.stdout
