import check_headers
import nvrtc
import pytest


def test_every_public_header_compiles_alone(tree_copy):
    assert check_headers.check(tree_copy) == []


def plant(tree_copy, name, text):
    """Leave one C header and one device header, so that what is found is what was planted."""
    path = tree_copy / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for header in (tree_copy / "include/tanada").rglob("*.h"):
        if header.name not in ("status.h", path.name):
            header.unlink()
    for header in (tree_copy / "include/tanada/device").glob("*.cuh"):
        header.unlink()
    for header in (tree_copy / "include/tanada/device/detail").rglob("*.hpp"):
        if header.name not in ("status.hpp", path.name):
            header.unlink()


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
def test_a_bad_c_header_is_found(tree_copy, text):
    plant(tree_copy, "include/tanada/planted.h", text)
    problems = check_headers.check(tree_copy)
    assert problems and all(problem.startswith("tanada/planted.h") for problem in problems)


@pytest.mark.parametrize(
    "text",
    [
        "MPI_Comm communicator(void);\n",  # needs mpi.h and does not include it
        "#include <mpi.h>\nvoid barrier();\n",  # no prototype
        "#include <mpi.h>\nint *f(void *a) { return a; }\n",  # no C++
    ],
)
def test_a_bad_header_of_comex_is_found(tree_copy, text):
    if check_headers.mpi_options() is None:
        pytest.skip("there is no MPI here")
    plant(tree_copy, "include/compat/comex/planted.h", text)
    problems = check_headers.check(tree_copy)
    assert problems and all(problem.startswith("comex/planted.h") for problem in problems)


@pytest.mark.parametrize(
    "text",
    [
        '#pragma once\n#include "core/base/result.hpp"\n',  # not installed
        "#pragma once\ninline int f() { int a = 1; { int a = 2; return a; } }\n",
    ],
)
def test_a_bad_device_header_is_found(tree_copy, text):
    plant(tree_copy, "include/tanada/device/detail/simt/planted.hpp", text)
    problems = check_headers.check(tree_copy)
    assert problems and all("simt/planted.hpp" in problem for problem in problems)


def test_a_std_header_fails_under_nvrtc_where_it_is_installed(tree_copy):
    plant(
        tree_copy,
        "include/tanada/device/detail/simt/planted.hpp",
        "#pragma once\n#include <cstdint>\n",
    )
    compilers = "NVRTC" if nvrtc.load(tree_copy) else ""
    assert "".join(check_headers.check(tree_copy)).count("NVRTC") == len(compilers) // 5
