import commands
import pytest


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with commands.Daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running
