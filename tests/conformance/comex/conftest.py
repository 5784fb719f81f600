import pytest

import comex_jobs


@pytest.fixture(scope="session")
def jobs(tmp_path_factory):
    if reason := comex_jobs.missing():
        pytest.skip(reason)
    return comex_jobs.Jobs(tmp_path_factory.mktemp("comex"))
