"""What holds for every test: the signals it starts with, a limit, and whether a slow one runs."""

import contextlib
import faulthandler
import os
import pathlib
import shutil
import signal
import tempfile

import pytest

CONFORMANCE = pathlib.Path(__file__).parent / "conformance"
LIMIT_S = 900  # of a test's set-up, call or end, on a machine that does much besides
CONFORMANCE_LIMIT_S = 3600  # other people's programs: whole suites of them
RUN_ALL = "TND_TEST_ALL"
OPEN_FOLDER = "TANADA_TEST_OPEN_FOLDER"  # a folder of this run that other users can enter
BACKSTOP_S = 120  # later, for code that does not return to the interpreter


def pytest_configure(config):
    """Scripts start background jobs with SIGINT ignored, nohup with SIGHUP ignored, and programs inherit that.

    A handler that does nothing still ignores the signal here, and gives the default action to the programs that tests start.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(
                number, signal.default_int_handler if number == signal.SIGINT else lambda *_: None
            )
    config.addinivalue_line(
        "markers", f"limit(seconds): how long a test may take, {LIMIT_S} unless given"
    )
    if not hasattr(config, "workerinput"):
        make_open_folder(config)
    config.addinivalue_line("markers", f"slow: it runs only where {RUN_ALL}=1 is set")


def make_open_folder(config):
    """A folder for programs that tests run as other users. It exists as long as this process, which
    starts the workers.

    The folder of `tmp_path` does not do: each pytest of the same user that starts closes it to
    others again.
    """
    folder = tempfile.mkdtemp(prefix="tanada tests ")
    os.chmod(folder, 0o711)
    os.environ[OPEN_FOLDER] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


# Folders whose tests share what takes long to make: one worker of pytest-xdist runs all of them.
SHARING = ("tests/e2e/python/",)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadfile`, workers get files, or whole folders of SHARING."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class FolderScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return next((folder for folder in SHARING if nodeid.startswith(folder)), None) or (
                super()._split_scope(nodeid)
            )

    return FolderScheduling(config, log)


# Files and folders whose tests take a minute and more. They begin first, so that no worker has one
# left when the others are done.
LONG = (
    *SHARING,
    "tests/e2e/pool/test_cluster.py",
    "tests/e2e/examples/test_fdtd_pes.py",
    "tests/conformance/comex/test_swapping.py",
    "tests/conformance/comex/test_armci_programs.py",
    "tests/e2e/shmem_gpu/test_shmemg.py",
    "tests/conformance/shmem/test_shmem_api.py",
    "tests/conformance/shmem/test_shmem_stalls.py",
    "tests/conformance/shmem/test_shmem_failures.py",
)


def start_rank(nodeid):
    """The place of a test among LONG; all others come later, in their order."""
    return next((i for i, long in enumerate(LONG) if nodeid.startswith(long)), len(LONG))


def pytest_collection_modifyitems(items):
    """Slow tests add breadth: further sizes, transports and programs of what other tests cover."""
    items.sort(key=lambda item: start_rank(item.nodeid))
    if os.environ.get(RUN_ALL) == "1":
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: make test-all runs it"))


@contextlib.contextmanager
def limited(item):
    """Ends a phase of a test that takes too long: by an exception, or with the process where that does not help."""
    marker = item.get_closest_marker("limit")
    default = CONFORMANCE_LIMIT_S if CONFORMANCE in item.path.parents else LIMIT_S
    limit_s = marker.args[0] if marker else default

    def on_alarm(*_):
        pytest.fail(f"the test did not end within {limit_s} s", pytrace=True)

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(limit_s)
    faulthandler.dump_traceback_later(limit_s + BACKSTOP_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    with limited(item):
        return (yield)
