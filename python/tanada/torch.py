"""Checkpoints of PyTorch in the memory pool, each committed as a whole for all ranks.

::

    import torch.distributed.checkpoint as dcp

    run = "pool://node1/runs/llm"
    newest = tanada.torch.latest(run)
    if newest is not None:
        dcp.load(state, storage_reader=tanada.torch.PoolReader(newest))
    ...
    dcp.save(state, storage_writer=tanada.torch.PoolWriter(f"{run}/step{step}", keep=2))

The objects of all ranks are one set of the pool, which the coordinator commits at the end. If any
process is killed before, there is no trace of the checkpoint, and an earlier one of that name is
unchanged. A reader has the checkpoint that it opened, also if it is replaced or removed meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import io
import pickle
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

try:
    import torch
    from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
    from torch.distributed.checkpoint.planner import (
        LoadItemType,
        LoadPlan,
        LoadPlanner,
        ReadItem,
        SavePlan,
        SavePlanner,
        WriteItem,
        WriteItemType,
    )
    from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
    from torch.futures import Future
except ImportError as missing:
    raise ImportError(
        f"tanada.torch needs PyTorch: pip install 'tanada[torch]' ({missing})"
    ) from missing

from . import _checkpoints, _torch_tensors, pool
from ._checkpoints import Header, Place
from ._error import Error
from ._torch_tensors import ALIGNMENT, Entry

__all__ = ["PoolReader", "PoolWriter", "checkpoints", "latest", "remove"]

_HANDLE_COUNT_MAX = 4000  # objects that a reader opens on one connection


@dataclass(frozen=True)
class _Task:
    """What the coordinator sends to a rank, with its plan."""

    save: str
    rank: int

    @property
    def set(self) -> str:
        return f"torch-{self.save}"


@dataclass(frozen=True)
class _Failure:
    """Sent to the coordinator in place of results, so that it can drop the set at once."""

    rank: int
    status: int
    """0: not an error of the pool."""
    text: str

    @classmethod
    def of(cls, rank: int, error: Exception) -> _Failure:
        if isinstance(error, Error):
            return cls(rank, error.status, error.strerror or str(error))
        return cls(rank, 0, f"{type(error).__name__}: {error}")


def _device_index(settings: dict[str, Any]) -> int | None:
    """The CUDA device whose memory the connections access."""
    if settings["device_index"] is None and torch.cuda.is_available():
        settings["device_index"] = torch.cuda.current_device()
    index: int | None = settings["device_index"]
    return index


def _settings(
    timeout: float | None,
    key_file: str | None,
    fabric: str | None,
    shared_memory: bool | None,
    device_index: int | None,
) -> dict[str, Any]:
    return {
        "timeout": timeout,
        "key_file": key_file,
        "fabric": fabric,
        "shared_memory": shared_memory,
        "device_index": device_index,
    }


def _done(value: Any) -> Any:
    future: Any = Future()
    future.set_result(value)
    return future


class _PartWriter:
    """Writes the items of one thread to one object of the set, on a connection of its own."""

    def __init__(self, connection: pool.Pool, place: Place, task: _Task, part: int) -> None:
        self._connection = connection
        self._device_index: int | None = None
        self._task = task
        self._name = place.part(task.save, task.rank, part)
        self._relative_name = self._name[len(place.name) + 1 :]
        self._end = 0

    def write(
        self,
        items: Sequence[WriteItem],
        planner: SavePlanner,
        device_index: int | None,
        options: dict[str, Any],
    ) -> list[WriteResult]:
        self._device_index = device_index
        size = sum(_size_max(item) for item in items)  # a full pool refuses it before any byte
        with self._connection.create(self._name, size, set=self._task.set) as target:
            results = [self._write_item(target, item, planner) for item in items]
            target.resize(self._end)
            target.commit(**options)
        return results

    def _write_item(
        self, target: pool.Object, item: WriteItem, planner: SavePlanner
    ) -> WriteResult:
        content: Any = planner.resolve_data(item)
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        dtype, shape = None, ()
        if item.type == WriteItemType.BYTE_IO:
            content = content.getbuffer()
        else:
            content = content.detach().resolve_conj().resolve_neg()
            if _torch_tensors.is_plain(content):
                dtype, shape = content.dtype, tuple(content.shape)
            else:
                content = _torch_tensors.serialised(content)
        if dtype is None:
            target.write(content, offset)
        else:
            _torch_tensors.write(target, content, offset, self._device_index)
        entry = Entry(self._relative_name, offset, content.nbytes, dtype, shape)
        self._end = offset + entry.size
        return WriteResult(item.index, entry.size, tuple(entry))


def _size_max(item: WriteItem) -> int:
    if item.tensor_data is None:
        return 0
    count: int = item.tensor_data.chunk.sizes.numel()
    return count * item.tensor_data.properties.dtype.itemsize + ALIGNMENT


def _shares(items: Sequence[WriteItem], count: int) -> list[list[WriteItem]]:
    """Items for each thread, of about the same size; none is empty."""
    shares: list[list[WriteItem]] = [[] for _ in range(count)]
    sizes = [0] * count
    for item in sorted(items, key=_size_max, reverse=True):
        smallest = sizes.index(min(sizes))
        shares[smallest].append(item)
        sizes[smallest] += max(1, _size_max(item))
    return [share for share in shares if share]


class PoolWriter(StorageWriter):
    """Writes a checkpoint for ``torch.distributed.checkpoint.save`` and ``async_save``.

    Every rank makes one. A rank that fails makes the save fail at all ranks, and its cause is in
    the exception. Nothing remains in the pool then. A rank that is killed leaves what the others
    have written in the pool's memory until the coordinator's writer is closed, used again or freed,
    or its process ends.

    :param url: pool://host[:port]/namespace/run/checkpoint.
    :param durable: the commit waits until the checkpoint is durable in the pool's backing.
    :param keep: after the commit, remove the run's older checkpoints but this number; the run is
        the URL up to the last slash. None: keep all.
    :param threads: of each rank, each with a connection and an object of its own.
    :param checksum: "crc32c" or "xxh3": computed for every object.
    :param timeout: of each call, and the others up to ``device_index``: as
        :func:`tanada.pool.connect`. ``device_index`` is the current CUDA device by default.
    """

    def __init__(
        self,
        url: str,
        *,
        durable: bool = False,
        keep: int | None = None,
        threads: int = 1,
        checksum: str | None = None,
        timeout: float | None = None,
        key_file: str | None = None,
        fabric: str | None = None,
        shared_memory: bool | None = None,
        device_index: int | None = None,
    ) -> None:
        super().__init__()
        if threads < 1 or (keep is not None and keep < 0):
            raise ValueError(f"threads={threads} is below 1, or keep={keep} below 0")
        self._place = Place.of(url)
        self._durable, self._keep, self._threads = durable, keep, threads
        self._checksum = checksum
        self._settings = _settings(timeout, key_file, fabric, shared_memory, device_index)
        self._save: _Save | None = None  # of the coordinator

    # The interface of PyTorch, in the order of its calls.

    def reset(self, checkpoint_id: Any = None) -> None:
        self.close()
        if checkpoint_id:
            self._place = Place.of(checkpoint_id)

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(checkpoint_id=self._place.url)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise ValueError(
                "use_collectives=False writes a checkpoint for each rank, and PoolWriter one of all"
            )
        if is_coordinator:
            self._save = _Save(self._place, self._settings)
            self._save.check(self._durable)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        tasks = self._coordinated().begin(len(plans))
        return [replace(plan, storage_data=task) for plan, task in zip(plans, tasks)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        task: _Task = plan.storage_data
        try:
            results = self._write(task, plan.items, planner)
        except Exception as error:
            # Raised, it would keep the coordinator from dropping what the others have written.
            failure = _Failure.of(task.rank, error)
            results = [WriteResult(MetadataIndex(""), 0, failure)]
        return _done(results)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        save = self._coordinated()
        try:
            save.commit(metadata, results, self._durable)
            with self._warning("older checkpoints were not removed"):
                save.clean_up(self._keep)
        finally:
            self.close()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return isinstance(checkpoint_id, str) and checkpoint_id.startswith(_checkpoints.SCHEME)

    def close(self) -> None:
        """Drop a checkpoint that is not committed. A no-op after a save that succeeded."""
        save, self._save = self._save, None
        if save is not None:
            save.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_save": None}  # async_save may pass it to another process

    def _coordinated(self) -> _Save:
        if self._save is None:
            raise RuntimeError("only the coordinator's writer, once it is set up, does this")
        return self._save

    def _write(
        self, task: _Task, items: Sequence[WriteItem], planner: SavePlanner
    ) -> list[WriteResult]:
        device_index = _device_index(self._settings)
        options: dict[str, Any] = {"durable": self._durable, "checksum": self._checksum}

        def write(part: int, share: list[WriteItem]) -> list[WriteResult]:
            # The connection ends here: the coordinator's keeps the set.
            with self._place.connect(self._settings) as connection:
                writer = _PartWriter(connection, self._place, task, part)
                return writer.write(share, planner, device_index, options)

        shares = _shares(items, self._threads)
        written = _in_threads(write, list(enumerate(shares)), self._threads)
        return [result for results in written for result in results]

    @contextlib.contextmanager
    def _warning(self, text: str) -> Iterator[None]:
        try:
            yield
        except (Error, ValueError) as error:
            warnings.warn(
                f"{self._place.url} is committed, but {text}: {error}", RuntimeWarning, stacklevel=3
            )


def _in_threads(call: Callable[..., Any], tasks: list[tuple[Any, ...]], count: int) -> list[Any]:
    if count == 1 or len(tasks) <= 1:
        return [call(*task) for task in tasks]
    with ThreadPoolExecutor(min(count, len(tasks)), "tanada-checkpoint") as threads:
        return list(threads.map(lambda task: call(*task), tasks))


class _Save:
    """The coordinator's part of a save. Its connection keeps the set: when it ends, so does an
    uncommitted set to which no rank writes.
    """

    def __init__(self, place: Place, settings: dict[str, Any]) -> None:
        self._place, self._settings = place, settings
        self._id = uuid.uuid4().hex
        self._rank_count = 0
        self._connection = place.connect(settings)
        self._metadata: pool.Object | None = None

    def check(self, durable: bool) -> None:
        about = self._connection.connection()
        if not about.can_write:
            raise Error(-errno.EACCES, f"{self._place.url}: the key permits only reading")
        if durable and not about.is_durable:
            raise Error(
                -errno.EOPNOTSUPP,
                f"{self._place.url}: durable=True, but the pool has no durable backing: start"
                " tanada-poold with --backing file:PATH or flash:DIR",
            )

    def begin(self, rank_count: int) -> list[_Task]:
        tasks = [_Task(self._id, rank) for rank in range(rank_count)]
        self._rank_count = rank_count
        self._metadata = self._connection.create(self._place.metadata, set=tasks[0].set)
        return tasks

    def commit(self, metadata: Metadata, results: list[list[WriteResult]], durable: bool) -> None:
        self._raise_failures(results)
        try:
            parts = self._parts_of(results)
            self._prepare(metadata, results, len(parts))
            self._commit_set(len(parts) + 1, durable)
        except Error as error:
            raise self._failed(error.status, error.strerror or str(error)) from error

    def clean_up(self, keep: int | None) -> None:
        _checkpoints.remove_superseded(self._connection, self._place.name)
        if keep is not None:
            _checkpoints.remove_old(self._connection, self._place, keep)

    def close(self) -> None:
        self._connection.close()

    def _failed(self, status: int, text: str) -> Exception:
        message = f"the checkpoint {self._place.url} was not committed: {text}"
        return Error(status, message) if status != 0 else RuntimeError(message)

    def _raise_failures(self, results: list[list[WriteResult]]) -> None:
        all_data = [result.storage_data for rank in results for result in rank]
        failures = [data for data in all_data if isinstance(data, _Failure)]
        if failures:
            text = "; ".join(f"rank {failure.rank}: {failure.text}" for failure in failures[:3])
            if len(failures) > 3:
                text += f"; and {len(failures) - 3} other ranks"
            raise self._failed(failures[0].status, text)

    def _parts_of(self, results: list[list[WriteResult]]) -> set[str]:
        parts = {Entry(*result.storage_data).part for rank in results for result in rank}
        if len(results) != self._rank_count:
            raise Error(
                -errno.EPROTO, f"results of {len(results)} of {self._rank_count} ranks arrived"
            )
        for part in parts:
            if not part.startswith(f"{self._id}/"):
                raise Error(
                    -errno.EPROTO,
                    f"{part} belongs to another save; a planner that caches plans"
                    " (enable_plan_caching) cannot be used",
                )
        return parts

    def _prepare(
        self, metadata: Metadata, results: list[list[WriteResult]], part_count: int
    ) -> None:
        metadata.storage_data = {
            result.index: result.storage_data for rank in results for result in rank
        }
        metadata.storage_meta = StorageMeta(checkpoint_id=self._place.url, save_id=self._id)
        assert self._metadata is not None
        content = Header(self._id, part_count).encode() + pickle.dumps(metadata)
        self._metadata.write(content)
        self._metadata.commit()

    def _commit_set(self, count: int, durable: bool) -> None:
        try:
            self._connection.set_commit(_Task(self._id, 0).set, count, durable=durable)
        except Error as error:
            if error.name == "EAGAIN":
                text = f"{error.strerror}: objects of a rank are missing, or the set was dropped"
                raise Error(error.status, text) from error
            if error.name not in ("TND_EPEER", "ETIMEDOUT"):
                raise
            if not self._is_committed(durable):
                text = f"no reply to the commit, which may still take effect: {error.strerror}"
                raise Error(error.status, text) from error

    def _is_committed(self, durable: bool) -> bool:
        """Find out after a commit without a reply."""
        try:
            with self._place.connect(self._settings) as connection:
                flags = connection.stat(self._place.metadata).flags
                found = _checkpoints.read_header(connection, self._place.metadata).save
        except (Error, ValueError):
            return False
        return found == self._id and (not durable or bool(flags & pool.Flags.DURABLE))


class PoolReader(StorageReader):
    """Reads a checkpoint for ``torch.distributed.checkpoint.load``, with any number of ranks.

    A rank reads only the ranges that its tensors need, into their memory. What was opened stays
    readable to the end of the load, also if the checkpoint is replaced or removed. The metadata are
    a pickle, as those of PyTorch's own readers: load only checkpoints of writers that you trust.

    :param url: pool://host[:port]/namespace/run/checkpoint.
    :param threads: connections of each rank, each for a share of the objects.
    :param timeout: of each call, and the others: as :class:`PoolWriter`.
    """

    def __init__(
        self,
        url: str,
        *,
        threads: int = 1,
        timeout: float | None = None,
        key_file: str | None = None,
        fabric: str | None = None,
        shared_memory: bool | None = None,
        device_index: int | None = None,
    ) -> None:
        super().__init__()
        if threads < 1:
            raise ValueError(f"threads={threads} is below 1")
        self._place = Place.of(url)
        self._threads = threads
        self._settings = _settings(timeout, key_file, fabric, shared_memory, device_index)
        self._opened: _Opened | None = None
        self._lock = threading.Lock()  # of the planner, which threads share

    def reset(self, checkpoint_id: Any = None) -> None:
        self.close()
        if checkpoint_id:
            self._place = Place.of(checkpoint_id)

    def read_metadata(self, *args: Any) -> Metadata:
        self.close()
        _device_index(self._settings)
        self._opened = _Opened(self._place, self._settings, self._threads)
        return self._opened.metadata

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        self._open()

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return replace(plan, storage_data=self._open().save)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        saves = [plan.storage_data for plan in plans]
        if len(set(saves)) > 1:
            raise Error(
                -errno.ESTALE,
                f"{self._place.url} was replaced while the ranks opened it: rank"
                f" {_other_rank(saves)} has another version than rank 0; load again",
            )
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        opened = self._open()
        groups = opened.by_connection(plan.items)
        try:
            _in_threads(
                lambda items: self._read_items(opened, items, planner),
                [(items,) for items in groups],
                self._threads,
            )
        finally:
            self.close()
        return _done(None)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return PoolWriter.validate_checkpoint_id(checkpoint_id)

    def close(self) -> None:
        """End a load that was begun. A no-op after one that succeeded."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def _open(self) -> _Opened:
        if self._opened is None:
            raise RuntimeError("no metadata were read: call read_metadata() first")
        return self._opened

    def _read_items(self, opened: _Opened, items: list[ReadItem], planner: LoadPlanner) -> None:
        for item in items:
            entry, source = opened.find(item)
            if item.type == LoadItemType.BYTE_IO:
                content = io.BytesIO(source.read(entry.size, entry.offset))
                with self._lock:
                    planner.load_bytes(item, content)
                continue
            with self._lock:
                resolved = planner.resolve_tensor(item)
            target = resolved.detach()
            if target.shape != item.lengths:
                raise ValueError(
                    f"{item.storage_index.fqn}: the target has the shape {tuple(target.shape)},"
                    f" the plan {tuple(item.lengths)}"
                )
            begin = tuple(item.storage_offsets)
            if entry.dtype is not None:
                device_index = self._settings["device_index"]
                _torch_tensors.read(source, entry, begin, target, device_index)
            else:
                stored = _load_tensor(source, entry)
                for dimension, (first, length) in enumerate(zip(begin, item.lengths)):
                    if (first, length) != (0, stored.shape[dimension]):
                        stored = stored.narrow(dimension, first, length)
                with torch.no_grad():
                    resolved.copy_(stored)  # one that is sparse would change only its detached twin
            with self._lock:
                planner.commit_tensor(item, target)


def _other_rank(saves: list[str]) -> int:
    return next(rank for rank, save in enumerate(saves) if save != saves[0])


def _load_tensor(source: pool.Object, entry: Entry) -> torch.Tensor:
    content = io.BytesIO(source.read(entry.size, entry.offset))
    tensor: torch.Tensor = torch.load(content, map_location="cpu", weights_only=True)
    return tensor


class _Opened:
    """A checkpoint whose objects are open, each on one of the connections."""

    metadata: Metadata
    save: str

    def __init__(self, place: Place, settings: dict[str, Any], connection_count: int) -> None:
        self._connections = [place.connect(settings)]
        self._parts: dict[str, tuple[int, pool.Object]] = {}
        try:
            while not self._try_open(place, settings, connection_count):
                pass
        except BaseException:
            self.close()
            raise

    def find(self, item: ReadItem) -> tuple[Entry, pool.Object]:
        entry = Entry(*self.metadata.storage_data[item.storage_index])
        return entry, self._parts[entry.part][1]

    def by_connection(self, items: Sequence[ReadItem]) -> list[list[ReadItem]]:
        """The items of each connection, in the order in which they lie in their objects."""
        groups: dict[int, list[tuple[str, int, int, ReadItem]]] = {}
        for index, item in enumerate(items):
            entry, _ = self.find(item)
            group = groups.setdefault(self._parts[entry.part][0], [])
            group.append((entry.part, entry.offset, index, item))
        return [[item for *_, item in sorted(group)] for group in groups.values()]

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _try_open(self, place: Place, settings: dict[str, Any], connection_count: int) -> bool:
        """False: the checkpoint was replaced between the opening of its metadata and its parts."""
        connection = self._connections[0]
        with connection.open(place.metadata) as opened:
            content, version = opened.read(), opened.info().version
        header = Header.decode(content, place.metadata)
        self.save, self.metadata = header.save, pickle.loads(content[content.index(b"\n") + 1 :])
        names = sorted({Entry(*data).part for data in self.metadata.storage_data.values()})
        if len(names) != header.part_count:
            raise Error(
                -errno.EIO,
                f"the metadata of {place.url} name {len(names)} objects of {header.part_count}",
            )
        wanted = max(connection_count, -(-len(names) // _HANDLE_COUNT_MAX))
        while len(self._connections) < min(wanted, len(names)):
            self._connections.append(place.connect(settings))
        for index, name in enumerate(names):
            number = index % len(self._connections)
            try:
                part = self._connections[number].open(f"{place.name}/{name}")
            except Error as error:
                if error.errno != errno.ENOENT:
                    raise
                self._close_parts()
                if connection.stat(place.metadata).version != version:
                    return False
                raise Error(
                    -errno.EIO, f"{place.url} is damaged: its object {name} was removed"
                ) from error
            self._parts[name] = (number, part)
        return True

    def _close_parts(self) -> None:
        for _, part in self._parts.values():
            part.close()
        self._parts.clear()


def _run(url: str) -> Place:
    return Place.of(f"{url.rstrip('/')}/.")


def checkpoints(url: str, **settings: Any) -> list[str]:
    """URLs of a run's complete checkpoints, the last committed one first.

    :param url: pool://host[:port]/namespace/run, of checkpoints directly below it. The run may be
        missing in it.
    :param settings: of :func:`tanada.pool.connect`.
    """
    place = _run(url)
    with place.connect(settings) as connection:
        names = _checkpoints.newest_first(connection, place.run)
    return [f"{place.base}/{name}" for name in names]


def latest(url: str, **settings: Any) -> str | None:
    """URL of the last committed checkpoint of a run, or None if there is no checkpoint.

    The parameters are those of :func:`checkpoints`.
    """
    return next(iter(checkpoints(url, **settings)), None)


def remove(url: str, **settings: Any) -> None:
    """Remove a checkpoint. Readers that have opened it keep it.

    :raises tanada.Error: ENOENT: it does not exist.
    """
    place = Place.of(url)
    with place.connect(settings) as connection:
        _checkpoints.remove(connection, place.name)
