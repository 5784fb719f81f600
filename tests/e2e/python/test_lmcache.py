"""tanada.lmcache in LMCache's own remote backend, without a GPU."""

import asyncio
import threading

import pytest
from package import needed
from pool_daemon import Daemon

torch = needed("torch")
# Not by needed(): its many packages are in no list of this tree.
pytest.importorskip("lmcache.v1.storage_backend.remote_backend", exc_type=ImportError)

from lmcache.utils import CacheEngineKey  # noqa: E402
from lmcache.v1.config import LMCacheEngineConfig  # noqa: E402
from lmcache.v1.memory_allocators.ad_hoc_memory_allocator import AdHocMemoryAllocator  # noqa: E402
from lmcache.v1.memory_management import MemoryFormat  # noqa: E402
from lmcache.v1.metadata import LMCacheMetadata  # noqa: E402
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend  # noqa: E402
from lmcache.v1.storage_backend.remote_backend import RemoteBackend  # noqa: E402

LAYERS, TOKENS, WIDTH = 4, 16, 64
SHAPE = torch.Size([2, LAYERS, TOKENS, WIDTH])
LIMIT_S = 60


@pytest.fixture
def loop():
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


@pytest.fixture
def backend(tanada, daemon, namespace, loop):
    made = []

    def make(**extra):
        made.append(new_backend(daemon.url(namespace), loop, extra))
        return made[-1]

    yield make
    for remote in made:
        if remote.connection is not None:
            asyncio.run_coroutine_threadsafe(remote.connection.close(), loop).result(LIMIT_S)


def new_backend(url, loop, extra):
    prefix = "remote_storage_plugin.tanada."
    plugin = {"module_path": "tanada.lmcache", "class_name": "PoolAdapter", "url": url}
    settings = {prefix + name: value for name, value in plugin.items()}
    config = LMCacheEngineConfig.from_defaults(
        chunk_size=TOKENS,
        local_cpu=False,
        remote_serde="naive",
        remote_storage_plugins=["tanada"],
        extra_config={**settings, **extra},
    )
    metadata = LMCacheMetadata(
        model_name="model",
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.bfloat16,
        kv_shape=(LAYERS, 2, TOKENS, 1, WIDTH),
        chunk_size=TOKENS,
    )
    local = LocalCPUBackend(config, metadata, memory_allocator=AdHocMemoryAllocator("cpu"))
    return RemoteBackend(config, metadata, loop, local, "cpu", plugin_name="tanada")


def key_of(number):
    return CacheEngineKey("org/model", 1, 0, number, torch.bfloat16)


def chunk_of(backend, number, tokens=TOKENS):
    shape = torch.Size([2, LAYERS, tokens, WIDTH])
    chunk = backend.local_cpu_backend.allocate(shape, torch.bfloat16, MemoryFormat.KV_2LTD)
    chunk.tensor.copy_(torch.full(shape, number, dtype=torch.bfloat16))
    return chunk


def put(backend, numbers, **options):
    chunks = [chunk_of(backend, number, **options) for number in numbers]
    done = threading.Semaphore(0)
    backend.batched_submit_put_task(
        [key_of(number) for number in numbers],
        chunks,
        on_complete_callback=lambda _: done.release(),
    )
    for _ in numbers:
        assert done.acquire(timeout=LIMIT_S)
    return chunks


def values(chunks):
    return [None if chunk is None else chunk.tensor.unique().tolist() for chunk in chunks]


def test_chunks_come_back_as_they_were(backend):
    writer, reader = backend(), backend()
    put(writer, range(8))
    found = reader.batched_get_blocking([key_of(number) for number in range(8)])
    assert [chunk.tensor.shape for chunk in found] == [SHAPE] * 8
    assert values(found) == [[float(number)] for number in range(8)]
    assert values([reader.get_blocking(key_of(3))]) == [[3.0]]


@pytest.mark.parametrize("has_shape", [True, False])
def test_a_chunk_of_fewer_tokens_keeps_its_shape(backend, has_shape):
    remote = backend(save_chunk_meta=has_shape)
    put(remote, [5], tokens=3)
    (found,) = remote.batched_get_blocking([key_of(5)])
    assert found.tensor.shape == (2, LAYERS, 3, WIDTH)
    assert values([found]) == [[5.0]]


def test_a_missing_chunk_is_none(backend):
    remote = backend()
    put(remote, [1, 2])
    keys = [key_of(number) for number in (1, 2, 3)]
    assert values(remote.batched_get_blocking(keys)) == [[1.0], [2.0], None]
    assert remote.batched_contains(keys) == 2
    assert remote.contains(keys[0]) and not remote.contains(keys[2])


def test_chunks_are_listed_and_removed(backend, loop):
    remote = backend()
    put(remote, [1, 2])
    listed = asyncio.run_coroutine_threadsafe(remote.connection.list(), loop).result(LIMIT_S)
    assert sorted(listed) == sorted(key_of(number).to_string() for number in (1, 2))
    assert remote.remove(key_of(1)) and not remote.contains(key_of(1))
    assert not remote.connection.remove_sync(key_of(1))


def test_memory_of_the_buffer_is_returned(backend):
    remote = backend()
    chunks = put(remote, range(4))
    assert all(chunk.get_ref_count() == 1 for chunk in chunks)  # the test's own reference


def test_a_ping_reports_that_the_pool_has_ended(backend, loop, tmp_path):
    with Daemon(tmp_path, size="64MiB") as own:
        remote = backend(**{"remote_storage_plugin.tanada.url": own.url("cache")})

        def ping():
            return asyncio.run_coroutine_threadsafe(remote.connection.ping(), loop).result(LIMIT_S)

        put(remote, [1])
        assert ping() == 0
        own.stop()
        assert ping() != 0
        assert remote.get_blocking(key_of(1)) is None


def test_a_configuration_without_a_url_is_refused_with_the_setting_to_add(backend):
    remote = backend(**{"remote_storage_plugin.tanada.url": ""})
    assert remote.connection is None
