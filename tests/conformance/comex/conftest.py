import comex_jobs
import global_arrays
import pytest


@pytest.fixture(scope="session")
def jobs(tmp_path_factory):
    if reason := comex_jobs.missing():
        pytest.skip(reason)
    return comex_jobs.Jobs(tmp_path_factory.mktemp("comex"))


@pytest.fixture(scope="session")
def build():
    """The folder of Global Arrays, built on our ARMCI."""
    try:
        return global_arrays.make()
    except global_arrays.Missing as reason:
        pytest.skip(str(reason))
