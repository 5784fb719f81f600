"""A part of MPI over tanada/o2g.h: keys sorted over processes."""

import pytest


@pytest.mark.parametrize("ranks, keys", [(1, 1000), (2, 1), (4, 100000), (16, 5000)])
def test_keys_are_sorted(program, ranks, keys):
    assert (
        program("bucket_sort").pass_run(ranks, keys)
        == f"{ranks * keys} keys over {ranks} ranks are sorted\n"
    )


def test_messages_larger_than_what_sockets_hold(program):
    """Two ranks that send 16 MiB to each other at once: neither hangs, since the dumper threads
    receive.
    """
    assert "sorted" in program("bucket_sort").pass_run(2, 8 << 20)


def test_what_nobody_can_sort(program):
    assert "usage" in program("bucket_sort").fail_run(0)
    assert "usage" in program("bucket_sort").fail_run(65)
