"""Python's clients of a cluster while its servers are killed, one after the other: reads do not
fail, and a change that was acknowledged stays.
"""

import contextlib
import random
import threading

import etcd
import pytest
from cluster_processes import MIB, Cluster, wait_until_missed
from commands import wait_for
from package import needed

DATA = random.Random(5).randbytes(6 * MIB + 321)
PARTS = 24
END_S = 60


@pytest.fixture(params=["copies", pytest.param("erasure", marks=pytest.mark.slow)])
def cluster(request, tmp_path):
    """With an erasure code, a further server takes the place of one that is lost."""
    count = 4 if request.param == "erasure" else 3
    try:
        running = Cluster(tmp_path, count, "--stripe", "1MiB")
    except (etcd.EtcdError, FileNotFoundError) as error:
        pytest.skip(f"etcd: {error}")
    try:
        running.start()
        if request.param == "erasure":
            done = cluster_pool("cluster", "set", running.location(""), "a", "--erasure", "2+1")
            assert done.returncode == 0, done.stderr
        yield running
    finally:
        running.end()


def cluster_pool(*words):
    from commands import pool

    return pool(*words)


def kill_in_turn(cluster, advance):
    """`advance(half)` is called before and after each loss. Fragments are missed some seconds
    after a loss, so only one server of a cluster with an erasure code is lost.
    """
    for server in cluster.servers[: 1 if len(cluster.servers) == 4 else 3]:
        advance(0)
        server.kill()
        advance(1)
        wait_until_missed(cluster, server)
        server.start()
        cluster.wait_until_whole()


def whole_object(pool):
    with pool.open("data") as opened:
        size = len(DATA) // PARTS + 1
        for offset in range(0, len(DATA), size):
            assert opened.read(size, offset) == DATA[offset : offset + size]
            yield


def posted_reads(pool):
    target = bytearray(len(DATA))
    size = len(DATA) // PARTS + 1
    with pool.open("data") as opened:
        for offset in range(0, len(DATA), size):
            part = memoryview(target)[offset : offset + size]
            request = opened.post_read(part, offset)
            yield
            while not request.done:
                pool.poll()
            request.check()
    assert target == DATA


def posted_gets(pool):
    for _ in range(PARTS):
        targets = [bytearray(len(DATA)), bytearray(5)]
        requests = [pool.post_get("data", targets[0]), pool.post_get("small", targets[1])]
        yield
        while not all(request.done for request in requests):
            pool.poll()
        for request in requests:
            request.check()
        assert targets == [DATA, b"small"]


def gets_and_lists(pool):
    for _ in range(PARTS):
        assert pool.get("data") == DATA and pool.stat("small").size == 5
        assert [entry.name for entry in pool.list()] == ["data", "small"]
        yield


def fsspec_file(fs, folder):
    with fs.open(f"{folder}/data") as file:
        for _ in range(PARTS):
            position = file.tell()
            size = len(DATA) // PARTS + 1
            assert file.read(size) == DATA[position : position + size]
            yield


def zarr_chunks(array, expected):
    for row in range(expected.shape[0]):
        assert (array[row] == expected[row]).all()
        yield


def test_reads_go_on(tanada, cluster):
    import fsspec

    numpy, zarr = needed("numpy"), needed("zarr", "3")
    fsspec.process_entries()
    pools = [tanada.pool.connect(cluster.location("a")) for _ in range(4)]
    pools[0].put("data", DATA)
    pools[0].put("small", b"small")
    url = cluster.location("b").replace("pool://", "tanada://")
    expected = numpy.random.default_rng(1).random((PARTS, 30_000))
    made = zarr.create_array(
        f"{url}/field.zarr", shape=expected.shape, chunks=(1, 10_000), dtype="f8"
    )
    made[:] = expected
    fs, folder = fsspec.url_to_fs(cluster.location("a").replace("pool://", "tanada://"))
    readers = [
        whole_object(pools[0]),
        posted_reads(pools[1]),
        posted_gets(pools[2]),
        gets_and_lists(pools[3]),
        fsspec_file(fs, folder),
        zarr_chunks(zarr.open_array(f"{url}/field.zarr", mode="r"), expected),
    ]

    def advance(half):
        for reader in readers:
            for _ in range(2 + half):
                next(reader)

    kill_in_turn(cluster, advance)
    for reader in readers:
        for _ in reader:
            pass


@pytest.mark.slow
def test_a_checkpoint_is_loaded(tanada, cluster):
    torch, dcp = needed("torch"), needed("torch.distributed.checkpoint")
    import tanada.torch as checkpoints

    url = cluster.location("a", "run/step1")
    torch.manual_seed(3)
    expected = {f"w{i}": torch.rand(300_000) for i in range(12)}
    dcp.save(expected, storage_writer=checkpoints.PoolWriter(url), no_dist=True)
    is_over = threading.Event()
    failures, load_count = [], [0]

    def load():
        while not is_over.is_set():
            loaded = {name: torch.zeros(300_000) for name in expected}
            try:
                dcp.load(loaded, storage_reader=checkpoints.PoolReader(url), no_dist=True)
                assert all(torch.equal(loaded[name], expected[name]) for name in expected)
            except BaseException as error:  # noqa: BLE001, of dcp.load(), too
                failures.append(error)
            load_count[0] += 1

    thread = threading.Thread(target=load)
    thread.start()

    def advance(_):
        reached = load_count[0] + 2
        wait_for(lambda: load_count[0] >= reached, "loads that go on")

    try:
        kill_in_turn(cluster, advance)
    finally:
        is_over.set()
        thread.join(END_S)
    assert failures == []


class Changes(threading.Thread):
    """Repeats a change, and records its errors. `change(i)` raises, or was acknowledged."""

    def __init__(self, change):
        super().__init__(daemon=True)
        self.change = change
        self.is_over = threading.Event()
        self.begun = self.acknowledged = self.count = 0
        self.errors = []

    def run(self):
        while not self.is_over.is_set():
            self.begun += 1
            try:
                self.change(self.begun)
                self.acknowledged = self.begun
                self.count += 1
            except BaseException as error:  # noqa: BLE001, of dcp.save(), too
                self.errors.append(error)


def change_while_killing(cluster, writers):
    for writer in writers.values():
        writer.start()

    def advance(_):
        reached = {name: writer.count + 2 for name, writer in writers.items()}
        wait_for(
            lambda: all(writers[name].count >= count for name, count in reached.items()),
            f"changes that go on: {[(n, w.count, w.errors[-3:]) for n, w in writers.items()]}",
        )

    kill_in_turn(cluster, advance)
    for writer in writers.values():
        writer.is_over.set()
    for name, writer in writers.items():
        writer.join(END_S)
        print(name, writer.count, [str(error)[:200] for error in writer.errors])


def number_of(content):
    return int(content[:8])


def content_of(number, size):
    return b"%08d" % number + DATA[: size - 8]


@pytest.mark.slow
def test_acknowledged_changes_stay(tanada, cluster):
    """Errors are those that are documented: nobody knows whether it happened, or the handle is
    gone."""
    import fsspec

    fsspec.process_entries()
    pools = [tanada.pool.connect(cluster.location("a")) for _ in range(3)]
    fs, folder = fsspec.url_to_fs(cluster.location("a").replace("pool://", "tanada://"))
    large = 3 * MIB

    def put_posted(number):
        request = pools[2].post_put("posted", content_of(number, 1000))
        while not request.done:
            pools[2].poll()
        request.check()

    def write_file(number):
        with fs.open(f"{folder}/file", "wb") as file:
            for offset in range(0, large, large // 3):
                file.write(content_of(number, large)[offset : offset + large // 3])

    writers = {
        "small": Changes(lambda number: pools[0].put("small", content_of(number, 1000))),
        "large": Changes(lambda number: pools[1].put("large", content_of(number, large))),
        "posted": Changes(put_posted),
        "file": Changes(write_file),
    }
    change_while_killing(cluster, writers)
    with contextlib.closing(tanada.pool.connect(cluster.location("a"))) as pool:
        for name in ("small", "large", "posted", "file"):
            number = number_of(pool.get(name))
            assert writers[name].acknowledged <= number <= writers[name].begun, name
            assert pool.get(name) == content_of(number, pool.stat(name).size)


@pytest.mark.slow
def test_saved_checkpoints_stay(tanada, cluster):
    torch, dcp = needed("torch"), needed("torch.distributed.checkpoint")
    import tanada.torch as checkpoints

    url = cluster.location("a", "run/step1")

    def save(number):
        state = {"number": torch.tensor(number), "w": torch.full((500_000,), float(number))}
        dcp.save(state, storage_writer=checkpoints.PoolWriter(url), no_dist=True)

    writer = Changes(save)
    change_while_killing(cluster, {"save": writer})
    state = {"number": torch.tensor(0), "w": torch.zeros(500_000)}
    dcp.load(state, storage_reader=checkpoints.PoolReader(url), no_dist=True)
    assert writer.acknowledged <= int(state["number"]) <= writer.begun
    assert bool((state["w"] == float(state["number"])).all())
