import nvshmem_jobs
import pytest


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    if reason := nvshmem_jobs.missing():
        pytest.skip(reason)
    return nvshmem_jobs.Programs(tmp_path_factory.mktemp("nvshmem"))
