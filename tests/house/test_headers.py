import shutil

import check_headers
import nvrtc
import pytest
import tree


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_public_header_compiles_alone(tree_copy, fast):
    assert check_headers.check(tree_copy, fast=fast) == []


@pytest.fixture
def problems_of(tmp_path):
    """The findings in a header that is added to the public ones, with no other header compiled."""
    shutil.copytree(tree.ROOT / "include", tmp_path / "include")

    def problems(place, name, text):
        path = tmp_path / "include" / place / name
        path.write_text(text)
        return check_headers.check(tmp_path, only=name)

    return problems


@pytest.mark.parametrize(
    "text",
    [
        "size_t size_of_nothing(void);\n",  # needs a header it does not include
        '#include "tanada/device/detail/base/status.hpp"\n',  # reaches outside the installed set
        "static inline int f(int a) { return 0; }\n",  # a warning
        "enum class color { red };\n",  # no C
        "int first;\nint first_again = 1;\n",  # defined twice when included twice
    ],
)
def test_a_bad_c_header_is_found(problems_of, text):
    problems = problems_of("", "tanada/planted.h", text)
    assert problems and all(problem.startswith("tanada/planted.h") for problem in problems)


@pytest.mark.parametrize(
    "text",
    [
        "MPI_Comm communicator(void);\n",  # needs mpi.h and does not include it
        "#include <mpi.h>\nvoid barrier();\n",  # no prototype
        "#include <mpi.h>\nint *f(void *a) { return a; }\n",  # no C++
    ],
)
def test_a_bad_header_of_comex_is_found(problems_of, text):
    if check_headers.mpi_options() is None:
        pytest.skip("there is no MPI here")
    problems = problems_of("compat", "comex/planted.h", text)
    assert problems and all(problem.startswith("comex/planted.h") for problem in problems)


@pytest.mark.parametrize(
    "text",
    [
        '#pragma once\n#include "core/base/result.hpp"\n',  # not installed
        "#pragma once\ninline int f() { int a = 1; { int a = 2; return a; } }\n",
    ],
)
def test_a_bad_device_header_is_found(problems_of, text):
    problems = problems_of("", "tanada/device/detail/simt/planted.hpp", text)
    assert problems and all("simt/planted.hpp" in problem for problem in problems)


def test_a_std_header_fails_under_nvrtc_where_it_is_installed(problems_of, tmp_path):
    problems = problems_of(
        "", "tanada/device/detail/simt/planted.hpp", "#pragma once\n#include <cstdint>\n"
    )
    is_there = nvrtc.load(tmp_path) is not None
    assert "".join(problems).count("NVRTC") == is_there, problems


def test_a_good_header_is_not_found(problems_of):
    """The findings are in the planted headers, not in how they are compiled."""
    assert problems_of("", "tanada/planted.h", "int planted(void);\n") == []
