"""Programs that use only fsspec, on tanada://: zarr, xarray, pandas, PyTorch's distributed
checkpoint.
"""

import os
import random
import re
import subprocess
import sys

import pytest
from package import ROOT, needed

numpy = needed("numpy")


@pytest.fixture
def url(tanada, daemon, namespace, pool):
    import fsspec

    fsspec.process_entries()
    return daemon.url(namespace, "tanada")


def test_zarr(url, pool):
    zarr = needed("zarr", "3")
    group = zarr.open_group(f"{url}/run.zarr", mode="w", attributes={"step": 10})
    field = group.create_array(
        "field", shape=(100, 90), chunks=(32, 32), shards=(64, 64), dtype="f4"
    )
    expected = numpy.random.default_rng(1).random((100, 90), "f4")
    field[:] = expected
    field[10:20, ::7] = 3
    expected[10:20, ::7] = 3
    again = zarr.open_group(f"{url}/run.zarr", mode="r")
    assert again.attrs["step"] == 10 and (again["field"][:] == expected).all()
    assert (again["field"][33:70, 5] == expected[33:70, 5]).all()
    names = [entry.name for entry in pool.list("run.zarr/")]
    assert "run.zarr/zarr.json" in names and "run.zarr/field/c/1/1" in names
    assert sorted(name for name, _ in again.members()) == ["field"]
    del zarr.open_group(f"{url}/run.zarr", mode="a")["field"]
    assert [entry.name for entry in pool.list("run.zarr/")] == ["run.zarr/zarr.json"]
    with pytest.raises(FileNotFoundError):
        zarr.open_array(f"{url}/run.zarr/field", mode="r")


def test_xarray(url):
    needed("zarr", "3")
    xarray = needed("xarray")
    days = numpy.arange("2026-01-01", "2026-01-11", dtype="M8[D]").astype("M8[ns]")
    made = xarray.Dataset(
        {"t": (("time", "x"), numpy.random.default_rng(2).random((10, 50)))}, {"time": days}
    )
    made.to_zarr(f"{url}/weather.zarr", consolidated=False)
    later = made.assign_coords(time=days + numpy.timedelta64(10, "D"))
    later.to_zarr(f"{url}/weather.zarr", append_dim="time", consolidated=False)
    with xarray.open_zarr(f"{url}/weather.zarr", consolidated=False) as found:
        assert found.sizes["time"] == 20
        xarray.testing.assert_identical(found.isel(time=slice(10)).load(), made)
        assert float(found.t.sel(time="2026-01-12")[3]) == float(made.t[1, 3])


def test_h5py(url, pool):
    """HDF5 seeks, writes past the end, reads back what its caches dropped, and truncates."""
    h5py = needed("h5py")
    import fsspec

    fs, folder = fsspec.url_to_fs(url)
    fields = numpy.random.default_rng(4).random((60, 100, 100))
    with fs.open(f"{folder}/run.h5", "wb") as file, h5py.File(file, "w") as made:
        made.attrs["step"] = 10
        made.create_dataset("fields", data=fields, chunks=(1, 100, 100), compression="gzip")
        grown = made.create_dataset(
            "grown", shape=(0, 100), maxshape=(None, 100), chunks=(7, 100), dtype="f8"
        )
        for step in range(60):  # many groups: more than the cache of metadata holds
            made.create_group(f"steps/{step:04}").attrs["text"] = "x" * 4000
            grown.resize(step + 1, axis=0)
            grown[step] = fields[step, 0]
        del made["steps/0007"]
    size = pool.stat("run.h5").size
    with fs.open(f"{folder}/run.h5") as file, h5py.File(file, "r") as found:
        assert (found["fields"][:] == fields).all() and (found["grown"][:] == fields[:, 0]).all()
        assert found.attrs["step"] == 10 and len(found["steps"]) == 59
        assert found.id.get_filesize() == size  # nothing remained past the end
    with fs.open(f"{folder}/run.h5", "r+b") as file, h5py.File(file, "r+") as grown:
        grown["fields"][0] = 7
        grown.create_dataset("later", data=fields[:3])
        del grown["steps"]
    with fs.open(f"{folder}/run.h5") as file, h5py.File(file, "r") as found:
        assert (found["fields"][0] == 7).all() and (found["fields"][1:] == fields[1:]).all()
        assert (found["later"][:] == fields[:3]).all() and "steps" not in found


def test_pandas_csv(url, pool):
    pandas = needed("pandas")
    made = pandas.DataFrame(
        {"step": range(20_000), "energy": numpy.random.default_rng(3).random(20_000)}
    )
    for name in ("a.csv", "a.csv.gz"):
        made.to_csv(f"{url}/{name}", index=False)
        pandas.testing.assert_frame_equal(pandas.read_csv(f"{url}/{name}"), made)
    assert pool.get("a.csv.gz")[:2] == b"\x1f\x8b" and pool.get("a.csv").startswith(
        b"step,energy\n0,"
    )
    with pytest.raises(FileNotFoundError):
        pandas.read_csv(f"{url}/none.csv")


def test_pandas_parquet(url):
    pandas = needed("pandas")
    needed("pyarrow")
    made = pandas.DataFrame(
        {"step": range(20_000), "name": [f"n{index % 7}" for index in range(20_000)]}
    )
    made.to_parquet(f"{url}/a.parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet(f"{url}/a.parquet"), made)
    assert pandas.read_parquet(
        f"{url}/a.parquet", columns=["name"], filters=[("step", "<", 5)]
    ).shape == (5, 1)
    made.to_parquet(f"{url}/parts", partition_cols=["name"])
    assert sorted(pandas.read_parquet(f"{url}/parts").step) == list(range(20_000))


def test_archives(url):
    """zipfile seeks while it writes."""
    import zipfile

    import fsspec

    content = random.Random(4).randbytes(300_000)
    with fsspec.open(f"{url}/a.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("inside", content)
    with fsspec.open(f"zip://inside::{url}/a.zip") as file:
        assert file.read() == content


def a_state(torch, seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.Linear(200, 10)).to(
        torch.bfloat16
    )
    return {"model": model.state_dict(), "step": torch.tensor(seed)}


def test_distributed_checkpoint(url, pool):
    torch = needed("torch")
    checkpoint = needed("torch.distributed.checkpoint")
    from torch.distributed.checkpoint.fsspec_filesystem import FsspecReader, FsspecWriter

    for step in (1, 2):
        checkpoint.save(
            a_state(torch, step), storage_writer=FsspecWriter(f"{url}/step{step}"), no_dist=True
        )
    assert {entry.name for entry in pool.list()} == {
        f"step{step}/{name}" for step in (1, 2) for name in (".metadata", "__0_0.distcp")
    }
    loaded = a_state(torch, 7)
    checkpoint.load(loaded, storage_reader=FsspecReader(f"{url}/step2"), no_dist=True)
    expected = a_state(torch, 2)
    assert int(loaded["step"]) == 2 and loaded["model"].keys() == expected["model"].keys()
    assert all(
        torch.equal(loaded["model"][name], expected["model"][name]) for name in expected["model"]
    )


RANK = """
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
url, store, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
whole = torch.arange(30_000, dtype=torch.float32).reshape(300, 100)
mesh = init_device_mesh("cpu", (2,))
checkpoint.save({"w": distribute_tensor(whole, mesh, [Shard(0)])}, storage_writer=FsspecWriter(url))
other = {"w": distribute_tensor(torch.zeros(300, 100), mesh, [Shard(1)])}
checkpoint.load(other, storage_reader=FsspecReader(url))
assert torch.equal(other["w"].full_tensor(), whole)
dist.destroy_process_group()
"""


def test_distributed_checkpoint_of_two_ranks(url, pool, site, tmp_path):
    """Saved as rows, loaded as columns."""
    needed("torch")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, f"{url}/step1", str(tmp_path / "store"), str(rank)],
            env={**os.environ, "PYTHONPATH": str(site)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert [entry.name for entry in pool.list()] == [
        "step1/.metadata",
        "step1/__0_0.distcp",
        "step1/__1_0.distcp",
    ]


@pytest.mark.usefixtures("one_server")
def test_the_example(url, pool, site):
    needed("zarr", "3")
    done = subprocess.run(
        [sys.executable, ROOT / "examples/python/pool_zarr.py", url],
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(site)},
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        done.stderr == ""
        and "by shared_memory" in done.stdout
        and "22 objects, 5.0 MiB" in done.stdout
    )
    assert pool.list() == []


@pytest.mark.usefixtures("one_server")
def test_the_documentation(daemon, tanada, capsys):
    """The pool's examples in docs/python.md, in their order."""
    import fsspec

    fsspec.process_entries()
    text = (ROOT / "docs/python.md").read_text()
    text = text[text.index("## The memory pool") : text.index("### Checkpoints of PyTorch")]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) == 2
    for block in blocks:
        assert "//localhost/" in block
        exec(block.replace("//localhost/", f"//{daemon.host}:{daemon.port}/"), {})
    output = capsys.readouterr().out
    assert "[('field/0010', 4194304), ('field/0020', 4194304)] SHARED_MEMORY" in output
    assert "['run7/field/0010', 'run7/field/0020'] b'good'" in output


def test_a_checkpoint_that_fails_leaves_nothing(url, pool):
    """A writer that is ended by an exception; earlier saved data stay."""
    torch = needed("torch")
    import fsspec

    class Poison:
        def __reduce__(self):
            raise RuntimeError("not today")

    fs, path = fsspec.url_to_fs(f"{url}/model.pt")
    with fs.open(path, "wb") as file:
        torch.save(a_state(torch, 1), file)
    with pytest.raises(RuntimeError, match="not today"), fs.open(path, "wb") as file:
        torch.save({"first": torch.zeros(1_000_000), "then": Poison()}, file)
    with fs.open(path) as file:
        assert int(torch.load(file)["step"]) == 1
    assert len(pool.list()) == 1
