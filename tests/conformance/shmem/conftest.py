import pytest
import shmem_jobs


@pytest.fixture(scope="session")
def jobs(tmp_path_factory):
    if reason := shmem_jobs.missing():
        pytest.skip(reason)
    return shmem_jobs.Jobs(tmp_path_factory.mktemp("shmem"))
