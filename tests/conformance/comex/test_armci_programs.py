"""Small programs with 1 to 4 ranks, on one node and on simulated ones: ARMCI calls and their errors."""

import re

import comex_jobs
import pytest

PROGRAMS = [
    "broadcast",
    "collectives",
    "groups",
    "messages",
    "odd_accumulates",
    "reduce",
    "select",
    "transfers",
]
# The node of each of four ranks: alternating; and uneven, with masters not in the order of names.
NODES = [pytest.param("0 1 0 1", marks=pytest.mark.slow), "2 1 0 0"]
# Invalid calls (misuse.c), and the line that reports each. Lines of the launcher may come between.
ENDS = {
    "early": r"armci_msg_me: called before ARMCI_Init",
    "operation": r'process \d: armci_msg_igop: there is no operation "-"',
    "operation_null": r"armci_msg_igop: the operation is a null pointer",
    "operation_float": r'armci_msg_dgop: "or" requires an integer type, type -307 is not',
    "type": r"armci_msg_gop_scope: there is no type 5",
    "scope": r"armci_msg_gop_scope: there is no scope 1:",
    "count": r"armci_msg_igop: the size is negative: -1",
    "null": r"armci_msg_igop: the buffer is a null pointer, but its size is 1",
    "select_operation": r'armci_msg_sel_scope: there is no operation "sum"',
    "select_size": r"armci_msg_sel_scope: 2 bytes are too few for a value of 4",
    "select_type": r"armci_msg_sel_scope: there is no type 0",
    "root": r"armci_msg_bcast: there is no rank 2 to broadcast from: valid are 0 to 1",
    "bcast_size": r"armci_msg_bcast: the size is negative: -1",
    "bcast_null": r"armci_msg_bcast: the buffer is a null pointer, but its size is 1",
    "bcast_scope": r"armci_msg_bcast_scope: there is no scope 0:",
    "bcast_sizes": r"process 1: armci_msg_bcast: size mismatch: 16 bytes, rank 0 has 8",
    "bcast_barrier": r"process 1: armci_msg_bcast: rank 0 makes a different call",
    "bcast_unread": r"process 0: armci_msg_bcast: rank 1 makes a different call",
    "bcast_roots": r"process [01]: armci_msg_bcast: rank [10] makes a different call",
    "reduce_sizes": r"armci_msg_igop: size mismatch: (12|16) bytes, rank [01] has (16|12)",
    "reduce_operations": r"armci_msg_igop: rank [01] makes a different call",
    "reduce_types": r"armci_msg_gop_scope: rank [01] makes a different call",
    "different": r"armci_msg_igop: rank 0 makes a different call",
    "group_root": r"armci_msg_group_bcast_scope: there is no rank 2: valid are 0 to 1",
    "group": r"process \d: .*there is no group 77",
    "group_null": r"armci_msg_group_barrier: the group is a null pointer",
    "group_rank": r"process \d: group 0 has no rank 2",
    "absolute": r"process \d: group 0 has no rank 2",
    "tree": r"armci_msg_bintree: there is no scope 1:",
    "receiver": r"process 1: armci_msg_snd: there is no rank 2: valid are 0 to 1",
    "sender": r"process 1: armci_msg_rcv: there is no rank -3",
    "tag": r"process 1: armci_msg_snd: tag -5",
    "message_size": r"process 1: armci_msg_snd: the size is negative: -1",
    "too_long": r"process 1: armci_msg_rcv: .*truncate",
    "node": r"process 1: armci_domain_nprocs: there is no node 1000",
    "node_rank": r"process 1: armci_domain_glob_proc_id: there is no rank 1000 in node 0: valid are 0 to 1",
    "rank": r"process 1: ARMCI_Same_node: there is no rank 2",
    "notify": r"process 1: armci_notify: there is no rank -1",
    "notify_self": r"process 1: armci_notify_wait: waits for a notification by itself",
    "memory_size": r"process 1: ARMCI_Malloc: the size is negative: -5 bytes",
    "memget": r"process 1: ARMCI_Memget: 0 bytes",
    "iterator": r"armci_stride_info_init: rank 1: 9 stride levels",
    "iterator_end": r"process 1: armci_stride_info_next: the iterator is past its 1 pieces",
    "error": r"process 1: the program's own words: 9",
    "abort": r"process 1: armci_msg_abort: 7",
    "returns_levels": r"ARMCI_PutS: rank 1: 9 stride levels: valid are 0 to 8\n(.*\n)*refused",
    "strided_levels": r"1073741824 stride levels: valid are 0 to 8",
    "returns_count": r"ARMCI_GetS: rank 1: count\[0\] is negative: -8\n(.*\n)*refused",
    "returns_device": r'process 1: there is no memory device "tape": use "dram" for host and "gpu" for GPU memory',
    "returns_no_device": r"process 1: there is no device heap: set TND_COMEX_DEVICE_HEAP",
}


def runs():
    for name in PROGRAMS:
        for rank_count in (1, 2, 4):
            # test_on_several_nodes runs the same reductions with four ranks.
            is_slow = rank_count == 2 or (name == "reduce" and rank_count == 4)
            yield pytest.param(name, rank_count, marks=[pytest.mark.slow] * is_slow)


@pytest.mark.parametrize("name, rank_count", runs())
def test_on_one_node(jobs, name, rank_count):
    comex_jobs.require_passed(jobs.run(name, rank_count))


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_several_nodes(jobs, name, nodes):
    if not comex_jobs.has_fabric():
        pytest.skip("nodes reach one another by a fabric: libfabric-dev is not installed")
    comex_jobs.require_passed(jobs.run(name, 4, nodes=nodes))


# Without a GPU this is memory of the host executor, which processors cannot access then.
DEVICES = {"TND_COMEX_DEVICE_HEAP": "4M", "TND_HOST_DEVICE": "guarded"}


@pytest.mark.parametrize("rank_count", [1, 2, 4])
def test_on_memory_of_devices(jobs, rank_count):
    comex_jobs.require_passed(jobs.run("transfers", rank_count, ["gpu"], settings=DEVICES))


@pytest.mark.parametrize("nodes", NODES)
def test_on_memory_of_devices_of_several_nodes(jobs, nodes):
    if not comex_jobs.has_fabric():
        pytest.skip("nodes reach one another by a fabric: libfabric-dev is not installed")
    comex_jobs.require_passed(jobs.run("transfers", 4, ["gpu"], nodes=nodes, settings=DEVICES))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"TND_COMEX_DEVICE_HEAP": "much"}, "TND_COMEX_DEVICE_HEAP"),
        ({"TND_COMEX_MISSPELT": "4M"}, "TND_COMEX_MISSPELT, which no Tanada product reads"),
        ({"TND_COMEX_DEVICE_HEAP": "60T"}, "bytes are more than any device has"),
        (
            {
                "TND_COMEX_DEVICE_HEAP": "4M",
                "TND_COMEX_MEMORY": "64M",
                "TND_COMEX_SWAP": "file:///tmp",
            },
            "TND_COMEX_DEVICE_HEAP cannot be combined with TND_COMEX_MEMORY",
        ),
    ],
)
def test_a_device_heap_that_cannot_be_is_told(jobs, settings, line):
    done = jobs.run("transfers", 2, ["gpu"], settings=settings, limit_s=60)
    assert done.status == "failed" and done.left == 0 and line in done.output, done


def test_a_library_that_profiles_stands_between(jobs):
    comex_jobs.require_passed(jobs.run("profile", 2))


@pytest.mark.parametrize("case", ENDS)
def test_a_wrong_call_says_what_was_wrong(jobs, case):
    done = jobs.run("misuse", 2, [case], limit_s=60)
    assert done.status == "failed" and done.left == 0, done
    assert re.search(ENDS[case], done.output, re.IGNORECASE), done.output[-3000:]
    assert "passed" not in done.output


@pytest.mark.parametrize(("case", "code"), [("error", 9), ("abort", 7)])
def test_the_job_ends_with_the_code_that_it_is_given(jobs, case, code):
    assert jobs.run("misuse", 2, [case]).code == code
