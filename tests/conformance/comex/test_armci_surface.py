"""libarmci.so and libcomex.so export what Global Arrays links.

libarmci.so exports what its headers declare, and nothing else."""

import pathlib
import re
import subprocess

import comex_jobs
import pytest

SURFACE = pathlib.Path(__file__).with_name("surface.txt")
HEADERS = ["parmci.h", "message.h", "iterator.h"]
CALL = re.compile(r"\b(P?ARMCI_\w+|p?armci_\w+)\s*\(")


def read_surface():
    """{library: exported names}"""
    names = {}
    for line in SURFACE.read_text().splitlines():
        if not line.startswith("#"):
            library, name = line.split()
            names.setdefault(library, set()).add(name)
    return names


def symbols(library):
    """{name: (kind, address)} of the exports of a shared library."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return {name.split("@")[0]: (kind, address) for address, kind, name in map(str.split, lines)}


def missing(wanted, found):
    return sorted(wanted - set(found))


@pytest.fixture(scope="module")
def found():
    if reason := comex_jobs.missing():
        pytest.skip(reason)
    return {name: symbols(comex_jobs.LIB / f"lib{name}.so") for name in ("armci", "comex")}


@pytest.fixture(scope="module")
def declared(found):
    text = "".join(f"#include <{name}>\n" for name in HEADERS)
    done = subprocess.run(
        ["mpicc", "-E", "-P", f"-I{comex_jobs.INCLUDE}", "-x", "c", "-"],
        input=text,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return set(CALL.findall(done.stdout)) | {"ARMCI_COMM_WORLD"}


def test_the_list_is_whole():
    names = read_surface()
    assert (len(names["armci"]), len(names["comex"])) == (82, 49)


@pytest.mark.parametrize("library", ["armci", "comex"])
def test_what_global_arrays_links_is_there(found, library):
    assert missing(read_surface()[library], found[library]) == []


def test_a_name_that_is_not_there_is_found(found):
    rest = {name: place for name, place in found["armci"].items() if name != "armci_msg_bintree"}
    assert missing(read_surface()["armci"], rest) == ["armci_msg_bintree"]


def test_libarmci_has_what_its_headers_declare_and_nothing_else(found, declared):
    assert set(found["armci"]) == declared


def test_the_plain_names_are_weak_ones_of_the_same_functions(found, declared):
    twice = {name[1:] for name in declared if name.startswith(("PARMCI_", "parmci_"))}
    assert len(twice) > 60
    for name in twice:
        true_name = ("P" if name.startswith("ARMCI") else "p") + name
        assert (
            found["armci"][name] == ("W", found["armci"][true_name][1])
            and found["armci"][true_name][0] == "T"
        ), name


def test_libarmci_knows_no_engine(found):
    """libarmci uses comex.h and MPI.

    Beyond that it uses of libcomex.so only waits, nodes, shared memory and broadcasts there.
    """
    lines = subprocess.run(
        ["nm", "-D", "--undefined-only", comex_jobs.LIB / "libarmci.so"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    ours = {name for name in lines if name.startswith("tnd_") or "tanada" in name}
    assert ours <= {
        "tnd_comex_wait",
        "tnd_comex_node_master",
        "tnd_comex_leave",
        "tnd_comex_enter",
        "tnd_comex_buffer_begin",
        "tnd_comex_buffer_end",
        "tnd_comex_collective_memory",
        "tnd_comex_collective_copy",
        "tnd_comex_broadcast",
    }
