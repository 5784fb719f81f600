"""tanada.torch: checkpoints of PyTorch, committed as a whole."""

import contextlib
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading

import pytest
from package import ROOT, needed, raises, run
from pool_daemon import Daemon

torch = needed("torch")
dcp = needed("torch.distributed.checkpoint")

RANKS = pathlib.Path(__file__).with_name("torch_ranks.py")
pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
    pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants"),
]


@pytest.fixture
def checkpoint(tanada):
    import tanada.torch

    return tanada.torch


@pytest.fixture
def url(daemon, namespace, pool):
    return daemon.url(f"{namespace}/run/step1")


def save(checkpoint, state, url, **options):
    dcp.save(state, storage_writer=checkpoint.PoolWriter(url, **options), no_dist=True)


def load(checkpoint, state, url, **options):
    dcp.load(state, storage_reader=checkpoint.PoolReader(url, **options), no_dist=True)
    return state


def names(pool, prefix=""):
    return [entry.name for entry in pool.list(prefix)]


class Ranks:
    """Processes of one job of PyTorch."""

    def __init__(self, site, folder):
        self.environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
        self.folder = folder
        self.job_count = 0

    def run(self, scenario, url, count=4, **variables):
        """Exit statuses and outputs, by rank."""
        self.job_count += 1
        folder = self.folder / f"job{self.job_count}"
        folder.mkdir()
        job = subprocess.Popen(
            [sys.executable, RANKS, scenario, url, folder, str(count)],
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            statuses = job.communicate(timeout=240)[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
        return [int(word) for word in statuses.split()], [
            (folder / str(rank)).read_text() for rank in range(count)
        ]

    def succeed(self, scenario, url, count=4, **variables):
        statuses, outputs = self.run(scenario, url, count, **variables)
        assert statuses == [0] * count, "\n".join(outputs)
        return outputs


@pytest.fixture
def ranks(site, tmp_path):
    return Ranks(site, tmp_path)


def float8(values):
    return torch.tensor(values).to(torch.float8_e4m3fn)


STATE = {
    "float8": lambda: float8([[1.0, -2.5], [0.5, 448.0]]),
    "bfloat16": lambda: torch.arange(60_000, dtype=torch.float32).to(torch.bfloat16),
    "scalar": lambda: torch.tensor(3.25, dtype=torch.float64),
    "empty": lambda: torch.zeros(0),
    "empty rows": lambda: torch.zeros(3, 0, 5, dtype=torch.int16),
    "bool": lambda: torch.tensor([True, False, True]),
    "complex": lambda: torch.tensor([1 + 2j, -3j]).conj(),
    "transposed": lambda: torch.arange(3_000_000).reshape(1500, 2000).T,
    "columns": lambda: torch.arange(4_000_000.0).reshape(1000, 4000)[:, 1000:3000],
    "every second": lambda: torch.arange(24).reshape(2, 3, 4)[:, ::2, ::2],
    "expanded": lambda: torch.tensor([7, 8]).unsqueeze(1).expand(2, 9),
    "one column": lambda: torch.arange(30).reshape(5, 6).T[:1].T,
    "parameter": lambda: torch.nn.Parameter(torch.ones(5)),
    "sparse": lambda: torch.eye(4).to_sparse(),
    "größe/ „x“ %41?#\n": lambda: torch.arange(5),
}


def equal(found, expected):
    if found.layout != torch.strided:
        found, expected = found.to_dense(), expected.to_dense()
    if found.dtype == torch.float8_e4m3fn:
        found, expected = found.view(torch.uint8), expected.view(torch.uint8)
    return found.dtype == expected.dtype and torch.equal(found, expected)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_state_of_every_kind(checkpoint, url, pool, threads, shared_memory):
    options = {"threads": threads, "shared_memory": shared_memory}
    state = {name: make() for name, make in STATE.items()}
    other = {"step": 7, "text": "ä", "list": [1, torch.ones(2), {"a": None}], "nested": {"b": {}}}
    save(checkpoint, {"tensors": state, "other": other}, url, **options)
    loaded = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    rest = {"step": 0, "text": "", "list": [0, torch.zeros(2), {"a": 1}], "nested": {"b": {}}}
    found = load(checkpoint, {"tensors": loaded, "other": rest}, url, **options)
    for name, expected in state.items():
        assert equal(found["tensors"][name].detach(), expected.detach()), name
    assert torch.equal(found["other"]["list"][1], torch.ones(2))
    assert found["other"]["step"] == 7 and found["other"]["text"] == "ä"
    assert found["other"]["list"][2] == {"a": None}
    parts = names(pool, "run/step1/")
    assert parts[0] == "run/step1/.metadata" and len(parts) == 1 + threads


def test_a_part_of_a_tensor(checkpoint, tanada, url):
    """Loaded into a slice of a larger tensor, into another type, and in pieces of another order."""
    whole = torch.arange(2 * 3 * 4 * 5 * 6, dtype=torch.float32).reshape(2, 3, 4, 5, 6)
    save(checkpoint, {"w": whole}, url)
    entry = tanada._torch_tensors.Entry("", 0, whole.nbytes, whole.dtype, tuple(whole.shape))
    reader = checkpoint.PoolReader(url)
    reader.read_metadata()
    (part,) = [part for _, part in reader._opened._parts.values()]
    for begin, size in [
        ((0, 0, 0, 0, 0), (2, 3, 4, 5, 6)),
        ((1, 1, 1, 1, 1), (1, 2, 3, 4, 5)),
        ((0, 2, 0, 3, 0), (2, 1, 4, 2, 6)),
        ((1, 0, 3, 0, 5), (1, 3, 1, 5, 1)),
    ]:
        wanted = whole[tuple(slice(b, b + s) for b, s in zip(begin, size))]
        for target in (
            torch.zeros(size),
            torch.zeros(size, dtype=torch.float64),
            torch.zeros(size[::-1]).permute(4, 3, 2, 1, 0),
            torch.zeros(4, 6, 8, 10, 12)[tuple(slice(1, 1 + s) for s in size)],
        ):
            tanada._torch_tensors.read(part, entry, begin, target, None)
            assert torch.equal(target, wanted.to(target.dtype)), (begin, target.stride())
    reader.close()


def test_a_copy_in_pieces(checkpoint, tanada, url, monkeypatch):
    """Tensors whose memory the pool cannot write from pass through pieces."""
    monkeypatch.setattr(tanada._torch_tensors, "PIECE_SIZE", 1000)
    state = {
        "rows": torch.arange(7 * 90).reshape(90, 7).T,
        "long rows": torch.arange(4 * 3 * 500).reshape(500, 3, 4).permute(2, 1, 0),
    }
    save(checkpoint, state, url)
    loaded = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    load(checkpoint, loaded, url)
    assert all(torch.equal(loaded[name], state[name]) for name in state)
    other = {name: torch.zeros(tensor.shape, dtype=torch.int16) for name, tensor in state.items()}
    load(checkpoint, other, url)
    assert all(torch.equal(other[name], state[name].to(torch.int16)) for name in state)


def test_tensors_are_not_copied(checkpoint, tanada, url, monkeypatch):
    """Neither rows of columns nor whole tensors pass through a buffer, in both directions."""
    addresses = []

    def spied(call):
        def wrapper(self, memory, *words, **options):
            if isinstance(memory, torch.Tensor):
                addresses.append(memory.data_ptr())
            return call(self, memory, *words, **options)

        return wrapper

    for call in ("write", "write_box", "read_into", "read_box"):
        monkeypatch.setattr(tanada.pool.Object, call, spied(getattr(tanada.pool.Object, call)))
    whole = torch.arange(4_000_000.0).reshape(1000, 4000)
    state = {"a": whole[:500], "b": whole[500:, 2000:]}
    save(checkpoint, state, url)
    assert sorted(addresses) == sorted(tensor.data_ptr() for tensor in state.values())
    addresses.clear()
    target = torch.zeros(1000, 4000)
    loaded = {"a": target[:500], "b": target[500:, 2000:]}
    load(checkpoint, loaded, url)
    assert sorted(addresses) == sorted(tensor.data_ptr() for tensor in loaded.values())
    assert torch.equal(target[:500], whole[:500]) and not target[500:, :2000].any()


@pytest.mark.parametrize("name", ["größe „x“ %41?#", "a\nb", " ", "x" * 400, "a/b/c"])
def test_names(checkpoint, daemon, namespace, pool, name):
    run = daemon.url(f"{namespace}/{name}")
    save(checkpoint, {"a": torch.ones(3)}, f"{run}/step 1")
    assert checkpoint.latest(run) == f"{run}/step 1"
    assert torch.equal(load(checkpoint, {"a": torch.zeros(3)}, f"{run}/step 1")["a"], torch.ones(3))
    checkpoint.remove(f"{run}/step 1")
    assert names(pool) == [] and checkpoint.latest(run) is None


def test_urls_that_are_wrong(checkpoint, tanada, url, daemon, namespace):
    for wrong in ("", "file:///a", "pool://h", "pool://h/n", "pool://h/n/", pathlib.Path("/a"), 3):
        with pytest.raises(ValueError, match="URL of a checkpoint"):
            checkpoint.PoolWriter(wrong)
        with pytest.raises(ValueError, match="URL of a checkpoint"):
            checkpoint.PoolReader(wrong)
    with pytest.raises(ValueError, match="threads=0"):
        checkpoint.PoolWriter(url, threads=0)
    with pytest.raises(ValueError, match="keep=-1"):
        checkpoint.PoolWriter(url, keep=-1)
    with pytest.raises(dcp.api.CheckpointException, match="ENAMETOOLONG"):
        save(checkpoint, {"a": torch.ones(3)}, daemon.url(f"{namespace}/{'x' * 500}"))
    with pytest.raises(dcp.api.CheckpointException, match="ENOENT"):
        load(checkpoint, {"a": torch.ones(3)}, url)
    with raises(tanada, "ENOENT"):
        checkpoint.remove(url)


def test_the_newest_and_those_that_are_kept(checkpoint, daemon, namespace, pool):
    run = daemon.url(f"{namespace}/run")
    assert checkpoint.latest(run) is None
    pool.put("run/notes", b"of the user")
    pool.put("run/step2/notes", b"of the user")
    for step in (10, 9, 11, 2):  # the order of commits counts
        save(checkpoint, {"a": torch.tensor(step)}, f"{run}/step{step}")
        assert checkpoint.latest(f"{run}/") == f"{run}/step{step}"
    assert checkpoint.checkpoints(run) == [f"{run}/step{step}" for step in (2, 11, 9, 10)]
    save(checkpoint, {"a": torch.tensor(3)}, f"{run}/step3", keep=2)
    assert checkpoint.checkpoints(run) == [f"{run}/step{step}" for step in (3, 2, 11)]
    save(checkpoint, {"a": torch.tensor(-2)}, f"{run}/step2")
    save(checkpoint, {"a": torch.tensor(4)}, f"{run}/step4", keep=0)
    assert checkpoint.checkpoints(run) == [f"{run}/step4"]
    assert len(names(pool, "run/")) == 4 and pool.get("run/step2/notes") == b"of the user"
    assert load(checkpoint, {"a": torch.tensor(0)}, f"{run}/step4")["a"] == 4


def test_a_replaced_checkpoint(checkpoint, url, pool):
    """The parts of the earlier one are removed, and a reader that has opened it reads it."""
    save(checkpoint, {"a": torch.ones(1000), "b": torch.ones(10)}, url, threads=2)
    old = names(pool)
    reader = checkpoint.PoolReader(url)
    reader.read_metadata()
    save(checkpoint, {"a": torch.full((1000,), 2.0)}, url)
    new = names(pool)
    assert len(old) == 3 and len(new) == 2 and set(old) & set(new) == {"run/step1/.metadata"}
    reader.read_metadata = lambda: reader._opened.metadata  # opened before
    reader.reset = lambda *_: None
    state = {"a": torch.zeros(1000), "b": torch.zeros(10)}
    dcp.load(state, storage_reader=reader, no_dist=True)
    assert torch.equal(state["a"], torch.ones(1000)) and torch.equal(state["b"], torch.ones(10))
    assert load(checkpoint, {"a": torch.zeros(1000)}, url)["a"][0] == 2


def test_readers_of_a_checkpoint_that_is_replaced_all_the_time(checkpoint, url):
    """Each load is of one save: both tensors have its number."""
    save(checkpoint, {"a": torch.zeros(1000), "b": torch.zeros(1000)}, url, threads=2)
    done = threading.Event()
    writer_errors = []

    def write():
        number = 0
        try:
            while not done.is_set():
                number += 1
                filled = torch.full((1000,), float(number))
                save(checkpoint, {"a": filled, "b": filled.clone()}, url, threads=2)
        except Exception as error:
            writer_errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        numbers = []
        for _ in range(60):
            state = {"a": torch.zeros(1000), "b": torch.zeros(1000)}
            load(checkpoint, state, url)
            (number,) = set(torch.cat([state["a"], state["b"]]).tolist())
            numbers.append(number)
    finally:
        done.set()
        writer.join()
    assert not writer_errors and numbers == sorted(numbers) and len(set(numbers)) > 5


def test_ranks_that_open_different_versions(checkpoint, tanada, url):
    """One plan cannot mix them: the load fails with a reason."""
    readers, plans = [checkpoint.PoolReader(url), checkpoint.PoolReader(url)], []
    for number, reader in enumerate(readers):
        save(checkpoint, {"a": torch.tensor(number)}, url)
        reader.read_metadata()
        plans.append(reader.prepare_local_plan(dcp.LoadPlan([])))
    with raises(tanada, "ESTALE", "rank 1 has another version than rank 0"):
        readers[0].prepare_global_plan(plans)
    assert readers[0].prepare_global_plan(plans[:1]) == plans[:1]
    for reader in readers:
        reader.close()


def test_a_part_that_was_removed(checkpoint, url, pool):
    save(checkpoint, {"a": torch.ones(3)}, url)
    pool.remove(names(pool)[1])
    with pytest.raises(dcp.api.CheckpointException, match="is damaged: its object .* was removed"):
        load(checkpoint, {"a": torch.zeros(3)}, url)


def test_an_object_of_another_program(checkpoint, url, pool):
    for content in (b"", b"\x80\x04", b"{}", b'{"format": 2, "save": "", "parts": 0}\n'):
        pool.put("run/step1/.metadata", content)
        with pytest.raises(dcp.api.CheckpointException, match="metadata of a checkp|has format 2"):
            load(checkpoint, {"a": torch.zeros(3)}, url)


def plan_of(state, writer):
    """A writer that has got so far that it may write data, and its planner and plan."""
    planner = dcp.DefaultSavePlanner()
    planner.set_up_planner(state, writer.storage_meta(), True)
    writer.reset()
    writer.set_up_storage_writer(True)
    plans, metadata = planner.create_global_plan([planner.create_local_plan()] * 1)
    return planner, metadata, writer.prepare_global_plan(plans)


def test_a_rank_without_its_objects(checkpoint, tanada, url, pool):
    """A wrong number of ranks or objects: nothing is committed, nothing remains."""
    for save_id, name, message in (
        (None, "EAGAIN", "has 2 of 3 objects: objects of a rank are missing"),
        ("0" * 32, "EPROTO", "belongs to another save"),
        ("", "EPROTO", "results of 0 of 1 ranks"),
    ):
        writer = checkpoint.PoolWriter(url)
        planner, metadata, (plan,) = plan_of({"a": torch.ones(10), "b": torch.ones(10)}, writer)
        results = [writer.write_data(plan, planner).value()]
        if save_id == "":
            results = []
        else:  # the result of an object that is not in the set
            entry = (f"{save_id or plan.storage_data.save}/9.0", 0, 1, None, ())
            results[0][1] = dcp.storage.WriteResult(results[0][1].index, 1, entry)
        with raises(tanada, name, f"was not committed: .*{message}"):
            writer.finish(metadata, results)
        assert names(pool) == [] and pool.statistics().space_used == 0


def test_plans_that_are_cached(checkpoint, url, pool):
    """A rank would write to the set of the save before."""
    planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
    state = {"a": torch.ones(10)}
    writer = checkpoint.PoolWriter(url)
    dcp.save(state, storage_writer=writer, planner=planner, no_dist=True)
    before = names(pool)
    with pytest.raises(dcp.api.CheckpointException, match="enable_plan_caching"):
        dcp.save(state, storage_writer=writer, planner=planner, no_dist=True)
    assert names(pool) == before


def test_a_save_without_collectives(checkpoint, url):
    with pytest.raises(ValueError, match="use_collectives=False"):
        writer = checkpoint.PoolWriter(url)
        dcp.save({"a": torch.ones(3)}, storage_writer=writer, no_dist=True, use_collectives=False)


def test_a_writer_is_used_again(checkpoint, daemon, namespace, url, pool):
    """For another checkpoint, by its URL, and after it was sent to another process."""
    begun = checkpoint.PoolWriter(url)
    plan_of({"a": torch.tensor(0)}, begun)
    writer = pickle.loads(pickle.dumps(begun))  # without the connection
    dcp.save({"a": torch.tensor(1)}, storage_writer=writer, no_dist=True)
    other = daemon.url(f"{namespace}/run/step2")
    dcp.save({"a": torch.tensor(2)}, checkpoint_id=other, storage_writer=writer, no_dist=True)
    reader = pickle.loads(pickle.dumps(checkpoint.PoolReader(url)))
    state = {"a": torch.tensor(0)}
    dcp.load(state, storage_reader=reader, no_dist=True)
    assert state["a"] == 1
    dcp.load(state, checkpoint_id=other, storage_reader=reader, no_dist=True)
    assert state["a"] == 2 and len(names(pool)) == 4


def test_a_save_that_fails(checkpoint, url, pool):
    """By an exception of the state: the earlier checkpoint stays, and no byte of the new one."""

    class Poison:
        def __reduce__(self):
            raise RuntimeError("not today")

    save(checkpoint, {"a": torch.ones(1000)}, url)
    before, used = names(pool), pool.statistics().space_used
    for threads in (1, 2):
        with pytest.raises(dcp.api.CheckpointException, match="rank 0: RuntimeError: not today"):
            state = {"a": torch.zeros(100_000), "b": Poison()}
            save(checkpoint, state, url, threads=threads)
        assert names(pool) == before and pool.statistics().space_used == used
    assert load(checkpoint, {"a": torch.zeros(1000)}, url)["a"].all()


def test_a_key_for_reading(checkpoint, tmp_path):
    secret = "ab" * 32
    for name, rights in (("keys", "ro"), ("key", "ro")):
        path = tmp_path / name
        path.touch(0o600)
        path.write_text(f"reader {secret} {rights} *\n")
    with Daemon(tmp_path, "--key-file", str(tmp_path / "keys"), size="64MiB") as daemon:
        with pytest.raises(dcp.api.CheckpointException, match="the key permits only reading"):
            save(checkpoint, {}, daemon.url("a/b"), key_file=str(tmp_path / "key"))


@pytest.mark.parametrize("backing", ["file", "flash"])
def test_what_is_durable(checkpoint, tmp_path, backing):
    """It is there after the daemon was killed, and the one that was not finished is not."""
    (tmp_path / "pool").mkdir()
    memory = f"{backing}:{tmp_path}/pool/memory"
    with Daemon(tmp_path, "--backing", memory, size="64MiB") as daemon:
        run = daemon.url("a/run")
        for step in (1, 2):
            save(checkpoint, {"a": torch.tensor(step)}, f"{run}/step{step}", durable=True, keep=0)
        writer = checkpoint.PoolWriter(f"{run}/step3", durable=True)
        planner, _, (plan,) = plan_of({"a": torch.tensor(3)}, writer)
        writer.write_data(plan, planner)
        daemon.stop(signal.SIGKILL)
        daemon.start()
        assert checkpoint.checkpoints(run)[0] == f"{run}/step2"
        assert load(checkpoint, {"a": torch.tensor(0)}, f"{run}/step2")["a"] == 2
        with contextlib.suppress(Exception):
            writer.close()


def test_durable_without_a_backing(checkpoint, url, pool):
    with pytest.raises(dcp.api.CheckpointException, match="no durable backing: start tanada-poold"):
        save(checkpoint, {"a": torch.ones(3)}, url, durable=True)
    assert names(pool) == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_daemon_that_is_killed_at_the_commit(checkpoint, tanada, tmp_path, moment):
    """Without a reply the pool is asked, so that a save that took effect succeeds."""
    (tmp_path / "pool").mkdir()
    with Daemon(tmp_path, "--backing", f"flash:{tmp_path}/pool", size="64MiB") as daemon:
        url = daemon.url("a/run/step1")
        save(checkpoint, {"a": torch.tensor(2)}, url, durable=True)
        writer = checkpoint.PoolWriter(url, durable=True, timeout=20)
        planner, metadata, (plan,) = plan_of({"a": torch.tensor(3)}, writer)
        results = [writer.write_data(plan, planner).value()]
        connection = writer._save._connection
        commit = connection.set_commit

        def lost(*words, **options):
            if moment == "after":
                commit(*words, **options)
            daemon.stop(signal.SIGKILL)
            daemon.start()
            raise tanada.Error(-4097, "the connection broke")

        assert tanada.Error(-4097).name == "TND_EPEER"
        connection.set_commit = lost
        if moment == "after":
            with pytest.warns(RuntimeWarning, match="is committed, but older .* not removed"):
                writer.finish(metadata, results)
        else:
            with raises(tanada, "TND_EPEER", "no reply to the commit, which may still take effect"):
                writer.finish(metadata, results)
        assert load(checkpoint, {"a": torch.tensor(0)}, url)["a"] == (3 if moment == "after" else 2)


def test_ranks_save_and_load(checkpoint, ranks, url, pool):
    ranks.succeed("save_and_load", url)
    parts = names(pool, "run/step1/")
    assert [name.rpartition("/")[2] for name in parts] == [".metadata", "0.0", "1.0", "2.0", "3.0"]
    ranks.succeed("load_by_other_ranks", url, 2)
    state = {"model": {"w": torch.zeros(1200, 100)}, "own-3": torch.zeros(1000, dtype=torch.int64)}
    load(checkpoint, state, url)
    assert torch.equal(state["model"]["w"].flatten(), torch.arange(120_000.0) + 1)
    assert (state["own-3"] == 1).all()


@pytest.mark.parametrize("scenario", ["async_save", "async_save_by_a_process"])
def test_an_asynchronous_save(ranks, url, scenario):
    ranks.succeed(scenario, url, 2)


@pytest.mark.parametrize(
    "scenario, rank",
    [
        ("rank_2_is_killed_in_the_middle", 2),
        ("rank_2_is_killed_after_its_data", 2),
        ("coordinator_is_killed_in_the_middle", 0),
        ("coordinator_is_killed_before_the_commit", 0),
        ("coordinator_is_killed_after_the_commit", 0),
    ],
)
def test_a_process_that_is_killed(checkpoint, ranks, url, pool, scenario, rank):
    """The earlier checkpoint of this name or the new one is there, whole, and nothing besides."""
    earlier = {"model": {"w": torch.arange(120_000.0).reshape(1200, 100) + 1}, "seed": 1}
    save(checkpoint, earlier, url)
    before, used = names(pool), pool.statistics().space_used
    statuses, outputs = ranks.run(scenario, url)
    assert statuses[rank] == -signal.SIGKILL, outputs
    is_committed = scenario.endswith("after_the_commit")
    found = {"model": {"w": torch.zeros(1200, 100)}, "seed": 0}
    load(checkpoint, found, url)
    assert found["seed"] == found["model"]["w"][0, 0] == (2 if is_committed else 1)
    if is_committed:  # it did not remove the earlier parts, and the next save does
        assert len(names(pool)) == 6
    else:
        assert names(pool) == before and pool.statistics().space_used == used
    save(checkpoint, earlier, url)
    assert len(names(pool)) == 2


def test_a_coordinator_that_outlives_a_rank(ranks, url, pool):
    """What the others have written is freed when its writer is closed."""
    statuses, outputs = ranks.run("close_after_a_kill", url)
    assert statuses[2] == -signal.SIGKILL and statuses[0] == 0, outputs
    words = outputs[0][outputs[0].index("held ") :].split()
    assert int(words[1]) > 0 and int(words[3]) == 0 and names(pool) == []


def test_ranks_of_a_full_pool(ranks, tmp_path):
    """Rank 2 has no space. All ranks get the reason, and the space is free while they live."""
    with Daemon(tmp_path, size="8MiB") as daemon:
        outputs = ranks.succeed("fail_in_a_full_pool", daemon.url("a/run/step1"))
        assert all("used 0\n" in output for output in outputs), outputs


def test_ranks_of_a_lost_daemon(ranks, own_daemon):
    url = own_daemon.url("a/run/step1")
    outputs = ranks.succeed("ranks_of_a_lost_daemon", url, DAEMON=str(own_daemon.process.pid))
    assert all("failed\n" in output for output in outputs)


def test_the_documentation(daemon, namespace, capsys):
    text = (ROOT / "docs/python.md").read_text()
    text = text[text.index("### Checkpoints of PyTorch") : text.index("## Numba")]
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert "pool://localhost/runs/" in block
    exec(block.replace("pool://localhost/runs/", daemon.url(f"{namespace}/")), {})
    assert capsys.readouterr().out == f"{daemon.url(namespace)}/model/step10 10\n"


def test_the_example(site, url, pool):
    """It continues from its last checkpoint."""
    run = url.rpartition("/")[0]
    for expected in ("steps 1 to 30; checkpoints step30, step20", "steps 21 to 30; checkpoints"):
        done = subprocess.run(
            [sys.executable, ROOT / "examples/python/pool_torch.py", run],
            text=True,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
            timeout=240,
        )
        assert done.returncode == 0 and expected in done.stdout, done.stdout + done.stderr
        pool.remove("run/step30/.metadata")


def test_the_benchmark(site, tmp_path):
    """bench/pool/torch_checkpoint.py, as small as it can be."""
    run(
        sys.executable,
        ROOT / "bench/pool/torch_checkpoint.py",
        *("--size", "16MiB", "--ranks", "2", "--rounds", "1"),
        *("--disk", tmp_path, "--json", tmp_path / "a.json"),
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
    )
    record = json.loads((tmp_path / "a.json").read_text())
    assert record["bench"] == "pool_torch" and len(record["rows"]) == 4
    assert all(row["value"] > 0 and row["ratio"] > 0 for row in record["rows"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json"]
