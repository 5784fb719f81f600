"""Stores snapshots of a simulation as a zarr array in the memory pool, and reads them back as
xarray does and without a copy.

usage: pool_zarr.py [tanada://HOST[:PORT]/NAMESPACE]

Needs a pool (`tanada-poold` on this machine), zarr and fsspec.
"""

# %% Requirements.
import sys

import fsspec
import numpy as np
import zarr

import tanada

url = sys.argv[1] if len(sys.argv) > 1 else "tanada://localhost/example"
steps, shape = 20, (256, 256)

# %% A wave that spreads. Each snapshot is one chunk, so one object of the pool, committed as a
# whole.
group = zarr.open_group(f"{url}/wave.zarr", mode="w", attributes={"medium": "vacuum"})
field = group.create_array(
    "field", shape=(steps, *shape), chunks=(1, *shape), dtype="f4", compressors=None
)
y, x = np.meshgrid(*(np.arange(size) - size / 2 for size in shape), indexing="ij")
radius = np.hypot(x, y)
for step in range(steps):
    field[step] = np.cos(0.3 * (radius - 4 * step)) / (1 + radius) * (radius < 4 * step)

# %% Any program that uses fsspec can read it: zarr, xarray.open_zarr(url), Dask.
again = zarr.open_group(f"{url}/wave.zarr", mode="r")["field"]
energy = [float((again[step].astype("f8") ** 2).sum()) for step in range(steps)]

# %% On the pool's own node the bytes can be read in place.
with tanada.pool.connect(url.replace("tanada://", "pool://")) as pool:
    print(f"bytes travel by {pool.connection().path.name.lower()}")
    with pool.open(f"wave.zarr/field/c/{steps - 1}/0/0") as last:
        try:
            snapshot = np.frombuffer(last.map(), "f4").reshape(shape)
        except tanada.Error as error:  # the pool is on another node
            print(error)
            snapshot = np.frombuffer(last.read(), "f4").reshape(shape)

# %% Compare with NumPy.
expected = np.cos(0.3 * (radius - 4 * (steps - 1))) / (1 + radius) * (radius < 4 * (steps - 1))
assert np.array_equal(snapshot, expected.astype("f4")) and np.array_equal(
    again[steps - 1], snapshot
)
print(f"{steps} snapshots; energy {energy[1]:.3f} at step 1, {energy[-1]:.3f} at the last")
fs, path = fsspec.url_to_fs(f"{url}/wave.zarr")
print(f"{len(fs.find(path))} objects, {fs.du(path) / 2**20:.1f} MiB")
fs.rm(path, recursive=True)
