import pytest
import shmem_jobs

# Of other people's suites: name, carrier, number of PEs, programs that passed, programs.
RESULTS = []


@pytest.fixture(scope="session")
def jobs(tmp_path_factory):
    if reason := shmem_jobs.missing():
        pytest.skip(reason)
    return shmem_jobs.Jobs(tmp_path_factory.mktemp("shmem"))


@pytest.fixture(scope="session")
def suite_results():
    return RESULTS


def pytest_terminal_summary(terminalreporter):
    if not RESULTS:
        return
    terminalreporter.section("suites of OpenSHMEM")
    for suite, carrier, pe_count, passed, count in RESULTS:
        terminalreporter.line(f"{suite:28} {carrier:8} {pe_count:>3} PEs {passed:5} of {count}")
