import io
import subprocess
import zipfile

import check_layers
import pytest
import tree


def test_the_tree_respects_its_layers(tree_copy):
    assert check_layers.check(tree_copy) == []


def plant(tree_copy, where, line):
    (tree_copy / "src/sim").mkdir(exist_ok=True)
    (tree_copy / "src/sim/planted.hpp").touch()
    path = tree_copy / where
    text = path.read_text() if path.exists() else ""
    path.write_text(f"{line}\n{text}")


STATUS = "src/core/base/status.cc"
GFILE = "src/products/gfile/planted.cc"
ABI = "include/tanada/status.h"
OUTSIDE = "belongs in src/backends"


@pytest.mark.parametrize(
    "where, line, what",
    [
        (STATUS, '#include "seams/clock/clock.hpp"', "core/base may not use seams/clock"),
        (STATUS, '#include "../../seams/clock/clock.hpp"', "core/base may not use seams/clock"),
        (STATUS, "#include <seams/clock/clock.hpp>", "core/base may not use seams/clock"),
        (STATUS, "#include <tanada/device/detail/tier/table.hpp>", "may not use device/tier"),
        (STATUS, "#include <tanada/device/gfile.cuh>", "core/base may not use device/gfile"),
        (STATUS, "  #  include  <sys/socket.h>", OUTSIDE),
        (STATUS, "#include <fcntl.h>", OUTSIDE),
        (STATUS, "#include <cuda_runtime.h>", OUTSIDE),
        (STATUS, "auto now = std::chrono::system_clock::now();", "a clock of the system"),
        ("src/seams/store/planted.hpp", "#include <liburing.h>", OUTSIDE),
        (GFILE, "#include <gfarm/gfarm.h>", OUTSIDE),
        (GFILE, '#include "products/poold/session.hpp"', "may not use products/poold"),
        (GFILE, '#include "sim/planted.hpp"', "products/gfile may not use sim"),
        (GFILE, "#include <tanada/device/detail/shmem/view.hpp>", "may not use device/shmem"),
        (GFILE, '#include "kernel/o2g/match.h"', "products/gfile may not use kernel/o2g"),
        ("src/products/o2g/planted.cc", "#include <rdma/fabric.h>", OUTSIDE),
        ("src/products/o2g/provider/planted.cc", "#include <sys/socket.h>", OUTSIDE),
        (
            "src/backends/mem/planted.cc",
            '#include "backends/file/file_store.hpp"',
            "backends/mem may not use backends/file",
        ),
        (STATUS, '#include "no/such.hpp"', "is found nowhere"),
        (ABI, '#include "core/base/result.hpp"', "include <tanada/...> only"),
        ("examples/planted.cc", '#include "core/base/result.hpp"', "include <tanada/...> only"),
        ("examples/planted.cc", '#include "kernel/o2g/match.h"', "include <tanada/...> only"),
    ],
)
def test_a_planted_include_is_found(tree_copy, where, line, what):
    plant(tree_copy, where, line)
    problems = [each for each in check_layers.check(tree_copy) if "circle" not in each]
    assert len(problems) == 1 and what in problems[0] and problems[0].startswith(f"{where}:1:"), (
        problems
    )


def test_a_circle_of_folders_is_found(tree_copy):
    layers = tree_copy / "cmake/layers.txt"
    lines = layers.read_text().splitlines()
    lines = [line + " seams/store" if line.startswith("seams/gpu:") else line for line in lines]
    layers.write_text("\n".join(line.replace(" @", " @") for line in lines) + "\n")
    plant(tree_copy, "src/seams/gpu/gpu.hpp", '#include "seams/store/store.hpp"')
    assert any(
        "a circle of includes: seams/gpu -> seams/store -> seams/gpu" in problem
        for problem in check_layers.check(tree_copy)
    )


def test_tests_may_use_the_simulation_and_the_system(tree_copy):
    plant(
        tree_copy,
        "src/core/base/planted_test.cc",
        '#include "sim/planted.hpp"\n#include <sys/socket.h>',
    )
    assert check_layers.check(tree_copy) == []


def test_an_exception_that_is_not_needed_is_found(tree_copy):
    exceptions = tree_copy / "tools/system_headers.txt"
    exceptions.write_text(exceptions.read_text() + f"{STATUS} fcntl.h\n")
    assert check_layers.check(tree_copy) == [
        f"tools/system_headers.txt: {STATUS} fcntl.h: no longer needed"
    ]


@pytest.mark.parametrize(
    "line, what",
    [
        ("products/pool: core/base products/gfile", "products/pool and products/gfile"),
        ("backends/mem: backends/file", "backends backends/mem and backends/file"),
        ("products/pool: core/base nothing", "nothing, which is no folder"),
        ("aaa: zzz\nzzz:", "zzz, which is listed later"),
    ],
)
def test_a_bad_list_is_found(tree_copy, line, what):
    layers = tree_copy / "cmake/layers.txt"
    layers.write_text(layers.read_text() + line + "\n")
    assert any(what in problem for problem in check_layers.check(tree_copy))


def test_a_folder_outside_the_list_is_found(tree_copy):
    (tree_copy / "src/stray/inner").mkdir(parents=True)
    (tree_copy / "src/stray/inner/stray.cc").write_text("int stray;\n")
    assert check_layers.check(tree_copy) == [
        "src/stray/inner/stray.cc: stray/inner is not in cmake/layers.txt"
    ]


@pytest.mark.parametrize(
    "line, compiles",
    [
        ('#include "seams/store/store.hpp"', True),
        ('#include "products/poold/session.hpp"', False),
        ('#include "sim/store.hpp"', False),
        ('#include "kernel/o2g/match.h"', False),
        ("#include <tanada/device/detail/shmem/view.hpp>", False),
    ],
)
def test_the_build_gives_a_folder_its_own_include_paths(build_folder, tmp_path, line, compiles):
    source = tmp_path / "planted.cc"
    source.write_text(f"{line}\n")
    done = subprocess.run(
        [
            "c++",
            "-std=c++20",
            "-fsyntax-only",
            "-I",
            build_folder / "include_views/products/gfile",
            source,
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == compiles, done.stderr
    assert compiles or "No such file" in done.stderr


def test_device_headers_compile_from_a_zip_archive(tmp_path):
    files = subprocess.run(
        ["git", "ls-files", "include"], cwd=tree.ROOT, capture_output=True, text=True
    )
    if files.returncode != 0:
        pytest.skip("this is no git checkout")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for name in files.stdout.split():
            packed.write(tree.ROOT / name, name)
    zipfile.ZipFile(archive).extractall(tmp_path)  # Python stores a link as a file with its target
    for header in ("tanada/device/gfile.cuh", "shmemg.h"):
        source = tmp_path / "kernel.cc"
        source.write_text(f"#include <{header}>\n")
        subprocess.run(
            [
                "c++",
                "-std=c++17",
                "-DTND_HOST_EXECUTOR",
                "-fsyntax-only",
                "-I",
                tmp_path / "include",
            ]
            + ["-I", tmp_path / "include/compat", source],
            check=True,
        )
