"""The memory pool as a remote store of LMCache, for KV caches that inference engines share.

LMCache loads the connector by its configuration::

    remote_storage_plugins: ["tanada"]
    extra_config:
      remote_storage_plugin.tanada.module_path: tanada.lmcache
      remote_storage_plugin.tanada.class_name: PoolAdapter
      remote_storage_plugin.tanada.url: pool://node1/kv

Further keys below ``remote_storage_plugin.tanada``: ``threads`` (4), connections that transfer
chunks at a time; ``evictable`` (true): a full pool evicts the chunks that were not read for
longest; ``key_file``. A key of LMCache is an object, which is its chunk and, behind it, the chunk's shape.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

try:
    from lmcache.logging import init_logger
    from lmcache.utils import CacheEngineKey
    from lmcache.v1.memory_management import MemoryObj
    from lmcache.v1.protocol import RemoteMetadata
    from lmcache.v1.storage_backend.connector import (
        ConnectorAdapter,
        ConnectorContext,
        extract_plugin_type,
    )
    from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector
except ImportError as missing:
    raise ImportError(f"tanada.lmcache needs LMCache 0.5 or newer ({missing})") from missing

from . import pool
from ._error import Error

__all__ = ["PoolAdapter", "PoolConnector"]

_PLUGIN = "tanada"
_THREAD_COUNT = 4
_T = TypeVar("_T")
_logger = init_logger(__name__)


def _option(context: ConnectorContext, name: str, default: Any) -> Any:
    extra = (context.config.extra_config if context.config else None) or {}
    for instance in (context.plugin_name or _PLUGIN, _PLUGIN):
        value = extra.get(f"remote_storage_plugin.{instance}.{name}")
        if value is not None:
            return value
    return default


class PoolAdapter(ConnectorAdapter):
    """Creates the connector of a plugin ``tanada`` or ``tanada.INSTANCE``, or of a URL pool://."""

    def __init__(self) -> None:
        super().__init__("pool://")

    def can_parse(self, url: str) -> bool:
        if url.startswith("plugin://"):
            return extract_plugin_type(url[len("plugin://") :]) == _PLUGIN
        return super().can_parse(url)

    def create_connector(self, context: ConnectorContext) -> PoolConnector:
        url = context.url
        if not url.startswith("pool://"):
            url = _option(context, "url", None)
        if not url:
            raise ValueError(
                f"extra_config lacks remote_storage_plugin.{context.plugin_name}.url: "
                "set it to pool://HOST[:PORT]/NAMESPACE"
            )
        return PoolConnector(
            context,
            url,
            thread_count=int(_option(context, "threads", _THREAD_COUNT)),
            evictable=bool(_option(context, "evictable", True)),
            key_file=_option(context, "key_file", None),
        )


class PoolConnector(RemoteConnector):
    """Chunks as objects of one namespace. Each thread has a connection of its own."""

    def __init__(
        self,
        context: ConnectorContext,
        url: str,
        *,
        thread_count: int = _THREAD_COUNT,
        evictable: bool = True,
        key_file: str | None = None,
    ) -> None:
        super().__init__(context.config, context.metadata)
        self.loop = context.loop
        self.local_cpu_backend = context.local_cpu_backend
        self.url = url
        self._evictable = evictable
        self._key_file = key_file
        self._local = threading.local()
        self._lock = threading.Lock()
        self._pools: builtins.list[pool.Pool] = []
        self._pool()  # for the calling thread, and an early error if no pool answers
        self._threads = ThreadPoolExecutor(thread_count, "tanada-lmcache")

    def _pool(self) -> pool.Pool:
        connected = getattr(self._local, "pool", None)
        if connected is None:
            connected = self._local.pool = pool.connect(self.url, key_file=self._key_file)
            with self._lock:
                self._pools.append(connected)
        return connected

    async def _run(
        self,
        call: Callable[[], _T],
        drop: Callable[[Future[_T]], None] | None = None,
    ) -> _T:
        """Run a call in a thread. `drop` gets its result if nobody waits for it any more."""
        future = self._threads.submit(call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if drop is not None:
                future.add_done_callback(drop)
            raise

    # In the threads.

    def _exists(self, key: CacheEngineKey) -> bool:
        try:
            self._pool().stat(key.to_string())
        except Error as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def _count_existing(self, keys: Sequence[CacheEngineKey]) -> int:
        for index, key in enumerate(keys):
            if not self._exists(key):
                return index
        return len(keys)

    def _put(self, key: CacheEngineKey, memory_obj: MemoryObj) -> None:
        content = memoryview(memory_obj.byte_array)
        if not self.save_chunk_meta:
            self._pool().put(key.to_string(), content, evictable=self._evictable)
            return
        shape = RemoteMetadata(
            len(content),
            memory_obj.get_shapes(),
            memory_obj.get_dtypes(),
            memory_obj.get_memory_format(),
        ).serialize()
        size = len(content) + len(shape)
        with self._pool().create(key.to_string(), size, evictable=self._evictable) as made:
            made.write(content)
            made.write(shape, len(content))
            made.commit()

    def _get(self, key: CacheEngineKey) -> MemoryObj | None:
        try:
            with self._pool().open(key.to_string()) as chunk:
                return self._read(chunk)
        except Error as error:
            if error.errno != errno.ENOENT:
                _logger.error("chunk %s was not read: %s", key.to_string(), error)
            return None

    def _read(self, chunk: pool.Object) -> MemoryObj | None:
        size = chunk.size
        if self.save_chunk_meta:
            size -= self.remote_metadata_bytes
            shape = RemoteMetadata.deserialize(chunk.read(self.remote_metadata_bytes, size))
            memory_obj = self.local_cpu_backend.allocate(shape.shapes, shape.dtypes, shape.fmt)
        else:
            memory_obj = self.local_cpu_backend.allocate(
                self.meta_shapes, self.meta_dtypes, self.meta_fmt
            )
        if memory_obj is None:  # the buffer of the CPU is full, which LMCache expects
            return None
        try:
            target = memoryview(memory_obj.byte_array)
            if size > len(target) or (self.save_chunk_meta and size < len(target)):
                raise ValueError(f"the chunk has {size} bytes, {len(target)} are expected")
            chunk.read_into(target[:size])
            return (
                memory_obj if self.save_chunk_meta else self.reshape_partial_chunk(memory_obj, size)
            )
        except BaseException:
            memory_obj.ref_count_down()
            raise

    # What LMCache calls.

    async def exists(self, key: CacheEngineKey) -> bool:
        return await self._run(functools.partial(self._exists, key))

    def exists_sync(self, key: CacheEngineKey) -> bool:
        return self._exists(key)

    def support_batched_contains(self) -> bool:
        return True

    def batched_contains(self, keys: builtins.list[CacheEngineKey]) -> int:
        return self._count_existing(keys)

    async def batched_async_contains(
        self, lookup_id: str, keys: builtins.list[CacheEngineKey], pin: bool = False
    ) -> int:
        return await self._run(functools.partial(self._count_existing, keys))

    async def get(self, key: CacheEngineKey) -> MemoryObj | None:
        return await self._run(functools.partial(self._get, key), _release)

    def support_batched_get(self) -> bool:
        return True

    async def batched_get(
        self, keys: builtins.list[CacheEngineKey]
    ) -> builtins.list[MemoryObj | None]:
        gets = (self.get(key) for key in keys)
        found = await asyncio.gather(*gets, return_exceptions=True)
        for key, result in zip(keys, found):
            if isinstance(result, BaseException):
                _logger.error("chunk %s was not read: %s", key.to_string(), result)
        return [None if isinstance(result, BaseException) else result for result in found]

    async def put(self, key: CacheEngineKey, memory_obj: MemoryObj) -> None:
        await self._run(functools.partial(self._put, key, memory_obj))

    def support_batched_put(self) -> bool:
        return True

    async def batched_put(
        self, keys: builtins.list[CacheEngineKey], memory_objs: builtins.list[MemoryObj]
    ) -> None:
        # LMCache reuses the memory when this returns: all puts end first, also after a failure.
        puts = [self.put(key, chunk) for key, chunk in zip(keys, memory_objs)]
        for result in await asyncio.gather(*puts, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def list(self) -> builtins.list[str]:
        names = await self._run(lambda: [entry.name for entry in self._pool().list()])
        return names

    def remove_sync(self, key: CacheEngineKey) -> bool:
        try:
            self._pool().remove(key.to_string())
        except Error as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def support_ping(self) -> bool:
        return True

    async def ping(self) -> int:
        try:
            await self._run(lambda: self._pool().statistics())
        except Error as error:
            return int(error.status)
        return 0

    async def close(self) -> None:
        await self.loop.run_in_executor(None, self._threads.shutdown)
        with self._lock:
            while self._pools:
                self._pools.pop().close()


def _release(future: Future[MemoryObj | None]) -> None:
    memory_obj = None if future.cancelled() or future.exception() else future.result()
    if memory_obj is not None:
        memory_obj.ref_count_down()
