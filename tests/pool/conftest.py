import pool_daemon
import pytest


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    started = pool_daemon.Daemon(tmp_path_factory.mktemp("daemon"))
    yield started
    started.close()
