"""The Python package as pip builds it: a wheel, unpacked into a folder, and kernels in C++ for the
host executor.
"""

import ctypes
import os
import pathlib
import re
import sys
import zipfile

import pytest
from package import ROOT, locked, run

sys.path.insert(0, str(ROOT / "tests/fixtures"))
sys.path.insert(0, str(ROOT / "tests/e2e/pool"))
import cluster_processes  # noqa: E402
import etcd  # noqa: E402
from pool_daemon import Daemon  # noqa: E402

WORK = ROOT / "build/python-test"
sys.path.insert(0, str(ROOT / "tools"))


@pytest.fixture(scope="session")
def wheel():
    """Built once for all workers of a run."""
    this_run, note = os.environ.get("PYTEST_XDIST_TESTRUNUID"), WORK / "made-for"
    with locked(WORK / "lock"):
        if this_run is None or not note.exists() or note.read_text() != this_run:
            make_wheel()
            note.write_text(this_run or "")
    (made,) = WORK.glob("tanada-*.whl")
    return made


def make_wheel():
    """Uses the library that `make test` has built, if there is one, so that only the extension is
    compiled here.
    """
    built = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
    options = [f"build-dir={WORK}/build"]
    if (built / "lib/libtanada.so").exists():
        prefix = WORK / "prefix"
        run("cmake", "--install", built, "--prefix", prefix)
        options.append(f"cmake.define.TANADA_PREBUILT={prefix}")
    for old in WORK.glob("*.whl"):
        old.unlink()
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "-w",
        WORK,
        ROOT,
        *[f"--config-settings={option}" for option in options],
    )


@pytest.fixture(scope="session")
def site(request, tmp_path_factory):
    """A folder for PYTHONPATH, separate from the build, so that nothing refers to that.
    TANADA_SITE: an existing one.
    """
    if "TANADA_SITE" in os.environ:
        return pathlib.Path(os.environ["TANADA_SITE"])
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(request.getfixturevalue("wheel")) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="session")
def tanada(site):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "TND_GFILE_DEVICE", "host"
        )  # these tests are for the host executor, even if there is a GPU
        patch.syspath_prepend(str(site))
        import tanada

        assert pathlib.Path(tanada.__file__).is_relative_to(site)
        yield tanada


class Ref(ctypes.Structure):
    _fields_ = [("state", ctypes.c_void_p), ("timeout_ns", ctypes.c_uint64)]


class Kernels:
    """tests/e2e/python/kernels.cu; each method launches and does not wait."""

    def __init__(self, library):
        self._library = library
        self._kept = []

    def _outcome(self):
        outcome = (ctypes.c_uint64 * 2)(0, 0)  # status, sum
        self._kept.append(outcome)
        return outcome

    def _launch(self, name, ref, *arguments):
        getattr(self._library, name)(Ref.from_buffer_copy(bytes(ref)), *arguments)

    def sum_file(self, ref, url):
        outcome = self._outcome()
        self._launch("launch_sum_file", ref, url, outcome)
        return outcome

    def write_file(self, ref, url, content):
        outcome = self._outcome()
        self._launch("launch_write_file", ref, url, content, ctypes.c_uint64(len(content)), outcome)
        self._kept.append(content)
        return outcome

    def spin(self, flag):
        self._library.launch_spin(ctypes.byref(flag))


@pytest.fixture(scope="session")
def kernels(tanada, tmp_path_factory):
    library = tmp_path_factory.mktemp("kernels") / "libkernels.so"
    source = pathlib.Path(__file__).with_name("kernels.cu")
    run(
        "g++",
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-x",
        "c++",
        source,
        "-x",
        "none",
        f"-I{tanada.include_dir()}",
        f"-L{tanada.library_dir()}",
        f"-Wl,-rpath,{tanada.library_dir()}",
        "-ltanada",
        "-o",
        library,
    )
    return Kernels(ctypes.CDLL(str(library)))


class ClusterPool:
    """The servers of a cluster, as one pool. It stripes what is larger than 1 MiB."""

    def __init__(self, folder):
        self.cluster = cluster_processes.Cluster(folder, 3, "--stripe", "1MiB")
        self.cluster.size = "512MiB"
        names = [server.name for server in self.cluster.servers]
        self.host, _, port = ",".join(names).rpartition(":")
        self.port = int(port)

    def url(self, name="", scheme="pool"):
        return f"{scheme}://{self.host}:{self.port}/{name}"


@pytest.fixture(scope="session", params=["server", pytest.param("cluster", marks=pytest.mark.slow)])
def daemon(request, tmp_path_factory):
    """A pool for all tests, each with its own namespace."""
    folder = tmp_path_factory.mktemp("pool")
    if request.param == "server":
        with Daemon(folder) as running:
            yield running
        return
    try:
        servers = ClusterPool(folder)
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    try:
        servers.cluster.start()
        yield servers
    finally:
        servers.cluster.end()


@pytest.fixture
def one_server(daemon):
    """For tests of shared memory and of consecutive versions, which a cluster does not have."""
    if isinstance(daemon, ClusterPool):
        pytest.skip("the pool is a cluster")


@pytest.fixture
def own_daemon(tmp_path):
    """A pool that a test may stop and kill."""
    with Daemon(tmp_path) as running:
        yield running


@pytest.fixture
def namespace(request):
    return re.sub(r"\W+", "-", request.node.name)[:100]


@pytest.fixture
def pool(tanada, daemon, namespace):
    with tanada.pool.connect(daemon.url(namespace), timeout=20) as connected:
        yield connected
