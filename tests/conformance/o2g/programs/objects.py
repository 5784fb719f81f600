"""mpi4py: pickled objects, NumPy arrays, collectives of both, and a window, by every rank. Ends with status 1 if one is wrong."""

import sys
import traceback

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, ranks = world.Get_rank(), world.Get_size()


def objects():
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    given = {"rank": rank, "words": ["tanada"] * 1000, "nested": {"numbers": list(range(rank))}}
    request = world.isend(given, dest=right, tag=3)
    got = world.recv(source=left, tag=3)
    request.wait()
    assert (
        got["rank"] == left
        and got["nested"]["numbers"] == list(range(left))
        and len(got["words"]) == 1000
    )
    assert world.bcast(given if rank == 0 else None, root=0)["rank"] == 0
    assert world.allgather(rank * rank) == [other * other for other in range(ranks)]
    assert world.alltoall([(rank, other) for other in range(ranks)]) == [
        (other, rank) for other in range(ranks)
    ]


def arrays():
    given = numpy.arange(300_000, dtype="f8") + rank
    got = numpy.empty_like(given)
    world.Sendrecv(given, dest=(rank + 1) % ranks, recvbuf=got, source=(rank - 1) % ranks)
    assert (got == numpy.arange(300_000) + (rank - 1) % ranks).all()
    world.Allreduce(given, got, op=MPI.SUM)
    assert (got == ranks * numpy.arange(300_000.0) + ranks * (ranks - 1) / 2).all()
    column = MPI.DOUBLE.Create_vector(500, 1, 600).Commit()
    if rank == 0:
        world.Send([given, 1, column], dest=1, tag=4)
    elif rank == 1:
        world.Recv([got, 500, MPI.DOUBLE], source=0, tag=4)
        assert (got[:500] == numpy.arange(0, 300_000, 600)).all()
    column.Free()


def probes():
    if rank == 0:
        for _other in range(1, ranks):
            message = world.mprobe(source=MPI.ANY_SOURCE, tag=5)
            assert message.recv()["square"] % 1 == 0
    else:
        world.send({"square": rank * rank}, dest=0, tag=5)


def windows():
    memory = numpy.zeros(ranks, dtype="i8")
    window = MPI.Win.Create(memory, disp_unit=8, comm=world)
    window.Fence()
    for other in range(ranks):
        window.Put(numpy.array([rank + 1], dtype="i8"), other, target=rank)
    window.Fence()
    assert (memory == numpy.arange(ranks) + 1).all()
    window.Free()


try:
    for check in (objects, arrays, probes, windows):
        check()
        world.Barrier()
except Exception:
    traceback.print_exc()
    sys.stderr.flush()
    world.Abort(1)
