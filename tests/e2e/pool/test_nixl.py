"""The plugin TANADA in NIXL as its wheel has it. Needs a build with TANADA_NIXL_SOURCE."""

import importlib.util
import os
import pathlib
import time

import pytest
from pool_daemon import BUILD, Daemon

WHEEL = next((name for name in ("nixl_cu13", "nixl_cu12") if importlib.util.find_spec(name)), None)
PLUGIN = BUILD / "lib/nixl/libplugin_TANADA.so"
LIMIT_S = 60
pytestmark = pytest.mark.skipif(
    WHEEL is None or not PLUGIN.exists(), reason="needs nixl-cu12 or -cu13, and TANADA_NIXL_SOURCE"
)


@pytest.fixture(scope="module")
def nixl():
    os.environ["NIXL_PLUGIN_DIR"] = str(PLUGIN.parent)  # read when the first agent is created
    return importlib.import_module(WHEEL + "._api")


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("pool"), size="256MiB") as daemon:
        yield daemon


class Segments:
    """An agent of its own namespace, with bytes in DRAM."""

    def __init__(self, nixl, url, size=1 << 20, **parameters):
        self.agent = nixl.nixl_agent("tanada", nixl.nixl_agent_config(backends=[]))
        self.agent.create_backend("TANADA", {"url": url, **parameters})
        self.bytes = bytearray(size)
        import ctypes

        self.addr = ctypes.addressof((ctypes.c_char * size).from_buffer(self.bytes))
        self.agent.register_memory([(self.addr, size, 0, "")], "DRAM")

    def register(self, names, size):
        return self.agent.register_memory(
            [(0, size, number, name) for number, name in enumerate(names)], "OBJ"
        )

    def post(self, call, local, remote):
        """local: (offset, size) each; remote: (offset, size, number) each."""
        here = self.agent.get_xfer_descs(
            [(self.addr + offset, size, 0) for offset, size in local], "DRAM"
        )
        there = self.agent.get_xfer_descs(remote, "OBJ")
        request = self.agent.initialize_xfer(call, here, there, "tanada")
        return request, self.agent.transfer(request)

    def move(self, call, local, remote):
        request, state = self.post(call, local, remote)
        limit = time.monotonic() + LIMIT_S
        while state == "PROC":
            assert time.monotonic() < limit
            state = self.agent.check_xfer_state(request)
        request.release()
        return state

    def sizes(self, names):
        found = self.agent.query_memory([(0, 0, 0, name) for name in names], "TANADA", "OBJ")
        return [None if one is None else int(one["size"]) for one in found]


@pytest.mark.parametrize("size", [1000, 300_000])
def test_objects_are_written_and_read_by_other_agents(nixl, pool, size):
    url = pool.url(f"whole{size}")
    names = [f"block/{number}" for number in range(3)]
    local = [(number * size, size) for number in range(3)]
    remote = [(0, size, number) for number in range(3)]
    writer = Segments(nixl, url)
    writer.register(names, size)
    writer.bytes[: 3 * size] = content = os.urandom(3 * size)
    assert writer.move("WRITE", local, remote) == "DONE"
    reader = Segments(nixl, url, num_threads="1")
    assert reader.sizes([*names, "missing"]) == [size, size, size, None]
    reader.register(names, size)
    assert reader.move("READ", local, remote) == "DONE"
    assert reader.bytes[: 3 * size] == content


def test_a_request_can_be_posted_again(nixl, pool):
    segments = Segments(nixl, pool.url("again"))
    segments.register(["a"], 500_000)
    for byte in (1, 2):
        segments.bytes[:] = bytes([byte]) * len(segments.bytes)
        assert segments.move("WRITE", [(0, 500_000)], [(0, 500_000, 0)]) == "DONE"
    segments.bytes[:] = bytes(len(segments.bytes))
    assert segments.move("READ", [(0, 500_000)], [(0, 500_000, 0)]) == "DONE"
    assert segments.bytes[:500_000] == bytes([2]) * 500_000


def test_ranges_of_one_object_are_written_by_requests_at_a_time(nixl, pool):
    segments = Segments(nixl, pool.url("ranges"), num_threads="4")
    segments.register(["a"], 1 << 20)
    segments.bytes[:] = content = os.urandom(1 << 20)
    posted = [
        segments.post("WRITE", [(offset, 1 << 16)], [(offset, 1 << 16, 0)])
        for offset in range(0, 1 << 20, 1 << 16)
    ]
    limit = time.monotonic() + LIMIT_S
    for request, state in posted:
        while state == "PROC" and time.monotonic() < limit:
            state = segments.agent.check_xfer_state(request)
        assert state == "DONE"
    segments.bytes[:] = bytes(1 << 20)
    halves = [(0, 1 << 19), (1 << 19, 1 << 19)]
    assert segments.move("READ", halves, [(*half, 0) for half in halves]) == "DONE"
    assert segments.bytes == content


def test_a_request_that_is_released_early_leaves_the_agent_usable(nixl, pool):
    segments = Segments(nixl, pool.url("early"), num_threads="1")
    segments.register([str(number) for number in range(100)], 10_000)
    request, _ = segments.post("WRITE", [(0, 10_000)] * 100, [(0, 10_000, n) for n in range(100)])
    request.release()
    assert segments.move("WRITE", [(0, 10_000)], [(0, 10_000, 7)]) == "DONE"


def test_a_missing_object_is_an_error_of_its_name(nixl, pool):
    segments = Segments(nixl, pool.url("missing"))
    segments.register(["a"], 100)
    with pytest.raises(Exception, match="NOT_FOUND"):
        segments.move("READ", [(0, 100)], [(0, 100, 0)])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "the parameter url is missing"),
        ({"url": "pool://127.0.0.1:1/test"}, "Connection refused"),
        ({"url": "URL", "durable": "maybe"}, "durable=maybe: use true or false"),
        ({"url": "URL", "num_threads": "0"}, "num_threads=0: use 1 to 64"),
    ],
)
def test_wrong_parameters_are_named(nixl, pool, capfd, parameters, message):
    url = parameters.get("url", "").replace("URL", pool.url("test"))
    agent = nixl.nixl_agent("wrong", nixl.nixl_agent_config(backends=[]))
    with pytest.raises(Exception, match="NIXL"):
        agent.create_backend("TANADA", {**parameters, "url": url})
    assert message in capfd.readouterr().err


def test_durable_objects_survive_a_restart(nixl, tmp_path):
    backing = pathlib.Path(tmp_path, "backing")
    with Daemon(tmp_path, "--backing", f"file:{backing}", size="64MiB") as daemon:
        segments = Segments(nixl, daemon.url("kept"), durable="true")
        segments.register(["a"], 1000)
        segments.bytes[:1000] = content = os.urandom(1000)
        assert segments.move("WRITE", [(0, 1000)], [(0, 1000, 0)]) == "DONE"
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        reader = Segments(nixl, daemon.url("kept"))
        reader.register(["a"], 1000)
        assert reader.move("READ", [(0, 1000)], [(0, 1000, 0)]) == "DONE"
        assert reader.bytes[:1000] == content
