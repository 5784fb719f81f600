import cluster_processes
import commands
import etcd
import pytest


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with commands.Daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


@pytest.fixture
def cluster(tmp_path):
    try:
        running = cluster_processes.Cluster(tmp_path, 3)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    try:
        running.start()
        yield running
    finally:
        running.end()
