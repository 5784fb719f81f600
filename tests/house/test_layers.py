import check_layers
import pytest


def test_the_tree_respects_its_layers(tree_copy):
    assert check_layers.check(tree_copy) == []


@pytest.mark.parametrize(
    "where, line, what",
    [
        ("src/base/status.cc", '#include "port/clock/clock.hpp"', "base may not use port"),
        ("src/base/status.cc", '#include "../simt/group.hpp"', "base may not use simt"),
        ("src/base/status.cc", "#include <simt/group.hpp>", "base may not use simt"),
        ("src/base/status.cc", "  #  include  <sys/socket.h>", "belongs in src/port"),
        ("src/simt/planted.hpp", "#include <liburing.h>", "belongs in src/port"),
        ("src/base/status.cc", "#include <cuda_runtime.h>", "belongs in src/port"),
        ("src/gfile/planted.cc", "#include <gfarm/gfarm.h>", "belongs in src/port"),
        ("src/o2g/planted.cc", "#include <rdma/fabric.h>", "belongs in src/port"),
        ("src/o2g/provider/planted.cc", "#include <sys/socket.h>", "belongs in src/port"),
        ("src/gfile/planted.cc", '#include "sim/planted.hpp"', "gfile may not use sim"),
        ("src/base/status.cc", '#include "no/such.hpp"', "is found nowhere"),
        ("include/tanada/status.h", '#include "base/status.hpp"', "include <tanada/...> only"),
        ("examples/planted.cc", '#include "base/status.hpp"', "include <tanada/...> only"),
    ],
)
def test_a_planted_include_is_found(tree_copy, where, line, what):
    (tree_copy / "src/sim").mkdir(exist_ok=True)
    (tree_copy / "src/sim/planted.hpp").touch()
    path = tree_copy / where
    text = path.read_text() if path.exists() else ""
    path.write_text(f"{line}\n{text}")
    problems = check_layers.check(tree_copy)
    assert len(problems) == 1 and what in problems[0] and problems[0].startswith(f"{where}:1:"), (
        problems
    )


def test_tests_may_use_the_simulation_and_the_world(tree_copy):
    (tree_copy / "src/sim").mkdir(exist_ok=True)
    (tree_copy / "src/sim/planted.hpp").touch()
    (tree_copy / "src/base/planted_test.cc").write_text(
        '#include "sim/planted.hpp"\n#include <sys/socket.h>\n'
    )
    assert check_layers.check(tree_copy) == []


@pytest.mark.parametrize(
    "line, what",
    [
        ("pool: base gfile", "the products pool and gfile"),
        ("pool: base nothing", "nothing, which is no module"),
        ("aaa: zzz\nzzz:", "zzz, which is listed later"),
    ],
)
def test_a_bad_list_is_found(tree_copy, line, what):
    layers = tree_copy / "cmake/layers.txt"
    layers.write_text(layers.read_text() + line + "\n")
    assert any(what in problem for problem in check_layers.check(tree_copy))


def test_a_module_outside_the_list_is_found(tree_copy):
    (tree_copy / "src/stray").mkdir()
    (tree_copy / "src/stray/stray.cc").write_text("int stray;\n")
    assert check_layers.check(tree_copy) == ["src/stray/stray.cc: stray is not in cmake/layers.txt"]
