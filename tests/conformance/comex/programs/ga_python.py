"""Compares Global Arrays in Python with numpy: put, get, accumulate, product, sums, broadcasts.

Prints a line with the number of ranks."""

from mpi4py import MPI  # noqa: F401, I001 (starts MPI before ga)
import numpy as np

import ga

me, count = ga.nodeid(), ga.nnodes()
N = 61  # no multiple of the rank count
numbers = np.random.default_rng(7)
left, right = numbers.random((N, N)), numbers.random((N, N))
a, b, c = (ga.create(ga.C_DBL, (N, N)) for _ in range(3))
if me == 0:
    ga.put(a, left)
    ga.put(b, right)
ga.sync()
ga.gemm(False, False, N, N, N, 1.0, a, b, 0.0, c)
assert np.allclose(ga.get(c), left @ right)
assert np.isclose(ga.dot(a, b), (left * right).sum())
ga.sync()
ga.acc(c, np.ones((N, N)), alpha=2.0)
ga.sync()
assert np.allclose(ga.get(c), left @ right + 2.0 * count)
assert np.array_equal(ga.get(a, (7, 3), (40, 50)), left[7:40, 3:50])
assert np.allclose(ga.gop_add(np.full(100_000, me + 1.0)), count * (count + 1) / 2)
assert ga.brdcst(np.full(3, me), count - 1)[0] == count - 1
counter = ga.create(ga.C_LONG, (1,))
ga.zero(counter)
ga.sync()
got = ga.read_inc(counter, 0)
ga.sync()
assert 0 <= got < count and ga.get(counter)[0] == count
ga.sync()
if me == 0:
    print(f"agrees: {count} ranks")
ga.terminate()
