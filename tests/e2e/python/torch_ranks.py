"""Ranks of a PyTorch job for the tests of checkpoints: a process group of gloo, and a state.

usage: torch_ranks.py SCENARIO URL FOLDER COUNT

SCENARIO is a function of this file. The ranks are forked here, since PyTorch takes seconds to
import. Their outputs are in FOLDER/0 and so on, and their exit statuses are printed.
"""

import contextlib
import os
import signal
import sys
import traceback

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import tanada.pool
from tanada.torch import PoolReader, PoolWriter

ROWS, COLUMNS = 1200, 100


def whole(seed):
    return torch.arange(ROWS * COLUMNS, dtype=torch.float32).reshape(ROWS, COLUMNS) + seed


class Job:
    def __init__(self, url, rank, count):
        self.url, self.rank, self.count = url, rank, count
        self.mesh = init_device_mesh("cpu", (count,))

    def state(self, seed, dimension=0):
        """Two tensors that all ranks share, one of each rank, and a number."""
        return {
            "model": {"w": distribute_tensor(whole(seed), self.mesh, [Shard(dimension)])},
            "half": distribute_tensor(whole(seed).to(torch.bfloat16), self.mesh, [Shard(0)]),
            f"own-{self.rank}": torch.full((1000,), seed),
            "seed": seed,
        }

    def save(self, seed, writer=None, **options):
        dcp.save(self.state(seed), storage_writer=writer or PoolWriter(self.url, **options))

    def load(self, seed, dimension=0):
        loaded = self.state(0, dimension)
        dcp.load(loaded, storage_reader=PoolReader(self.url))
        self.check(loaded, seed)

    def check(self, loaded, seed):
        assert torch.equal(loaded["model"]["w"].full_tensor(), whole(seed))
        assert torch.equal(loaded["half"].full_tensor(), whole(seed).to(torch.bfloat16))
        assert torch.equal(loaded[f"own-{self.rank}"], torch.full((1000,), seed))
        assert loaded["seed"] == seed


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


class KilledInTheMiddle(PoolWriter):
    """Once the first of its tensors is written."""

    def write_data(self, plan, planner):
        resolve, items = planner.resolve_data, iter(range(100))
        planner.resolve_data = lambda item: killed() if next(items) == 1 else resolve(item)
        return super().write_data(plan, planner)


class KilledAfterItsData(PoolWriter):
    def write_data(self, plan, planner):
        super().write_data(plan, planner)
        killed()


class KilledBeforeTheCommit(PoolWriter):
    """All objects are prepared, those of the metadata too."""

    def finish(self, metadata, results):
        self._coordinated()._commit_set = lambda *_: killed()
        super().finish(metadata, results)


class KilledAfterTheCommit(PoolWriter):
    def finish(self, metadata, results):
        self._coordinated().clean_up = lambda *_: killed()
        super().finish(metadata, results)


def save_and_load(job):
    """Saved as rows; loaded as rows and as columns."""
    job.save(1)
    job.load(1)
    job.load(1, dimension=1)


def load_by_other_ranks(job):
    """Only what all ranks share."""
    for dimension in (0, 1):
        loaded = {
            "model": {"w": distribute_tensor(whole(0), job.mesh, [Shard(dimension)])},
            "half": distribute_tensor(whole(0).to(torch.bfloat16), job.mesh, [Shard(dimension)]),
        }
        dcp.load(loaded, storage_reader=PoolReader(job.url, threads=2))
        assert torch.equal(loaded["model"]["w"].full_tensor(), whole(1))
        assert torch.equal(loaded["half"].full_tensor(), whole(1).to(torch.bfloat16))


def async_save(job):
    state = job.state(1)
    future = dcp.async_save(state, storage_writer=PoolWriter(job.url, threads=2))
    state["model"]["w"].to_local().zero_()  # the state was staged
    future.result()
    job.load(1)


def async_save_by_a_process(job):
    kind = dcp.state_dict_saver.AsyncCheckpointerType.PROCESS
    writer = PoolWriter(job.url)
    dcp.async_save(job.state(1), storage_writer=writer, async_checkpointer_type=kind).result()
    job.load(1)


def a_kill_by(rank, kind):
    """All ranks save; one is killed. The others end with the error of the process group."""

    def scenario(job):
        writer = kind(job.url) if job.rank == rank else None
        job.save(2, writer)

    return scenario


rank_2_is_killed_in_the_middle = a_kill_by(2, KilledInTheMiddle)
rank_2_is_killed_after_its_data = a_kill_by(2, KilledAfterItsData)
coordinator_is_killed_in_the_middle = a_kill_by(0, KilledInTheMiddle)
coordinator_is_killed_before_the_commit = a_kill_by(0, KilledBeforeTheCommit)
coordinator_is_killed_after_the_commit = a_kill_by(0, KilledAfterTheCommit)


def used(job):
    with tanada.pool.connect("/".join(job.url.split("/")[:4])) as pool:
        return pool.statistics().space_used


def close_after_a_kill(job):
    """The coordinator lives on, and drops what others have written when it closes its writer."""
    if job.rank == 2:
        job.save(2, KilledAfterItsData(job.url))
    writer = PoolWriter(job.url)
    with contextlib.suppress(Exception):
        job.save(2, writer)
        raise AssertionError("it saved without rank 2")
    if job.rank == 0:
        before = used(job)
        writer.close()
        print("held", before, "then", used(job), flush=True)


def fail_in_a_full_pool(job):
    """The ranks live on, and the space is free at once."""
    try:
        state = {f"own-{job.rank}": torch.ones(3_000_000 if job.rank == 2 else 1000)}
        dcp.save(state, storage_writer=PoolWriter(job.url))
        raise AssertionError("it fitted")
    except dcp.api.CheckpointException as error:
        text = str(error)
    assert "was not committed: rank 2: " in text and "ENOSPC" in text, text
    dist.barrier()
    print("used", used(job), flush=True)
    dist.barrier()
    job.save(3)  # the ranks can go on
    job.load(3)


def ranks_of_a_lost_daemon(job):
    """Rank 0 kills it when all data are written; every rank gets the reason."""

    class Lost(PoolWriter):
        def finish(self, metadata, results):
            os.kill(int(os.environ["DAEMON"]), signal.SIGKILL)
            super().finish(metadata, results)

    try:
        job.save(1, Lost(job.url, timeout=10))
        raise AssertionError("it saved")
    except dcp.api.CheckpointException as error:
        assert "was not committed: " in str(error) and "TND_EPEER" in str(error), str(error)
    print("failed", flush=True)


def run_rank(scenario, url, folder, rank, count):
    output = os.open(f"{folder}/{rank}", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    status = 1
    try:
        store = f"file://{folder}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=count)
        globals()[scenario](Job(url, rank, count))
        dist.destroy_process_group()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def main():
    scenario, url, folder, count = sys.argv[1:]
    ranks = []
    for rank in range(int(count)):
        ranks.append(os.fork())
        if ranks[-1] == 0:
            run_rank(scenario, url, folder, rank, int(count))
    print(*[os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks])


if __name__ == "__main__":
    main()
