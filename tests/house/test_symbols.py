import re
import subprocess

import check_symbols
import pytest

SOURCE = "int exported_one(void) { return 1; } int exported_two(void) { return 2; }\n"


@pytest.fixture
def library(tmp_path):
    (tmp_path / "a.c").write_text(SOURCE)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", tmp_path / "a.so", tmp_path / "a.c"], check=True
    )
    return tmp_path / "a.so"


def test_the_library_exports_its_list(build_folder):
    listed = check_symbols.read_list(check_symbols.tree.ROOT / "cmake/exported.txt")
    assert check_symbols.check(build_folder / "lib/libtanada.so", listed) == []


def test_equal_sets_pass(library):
    assert check_symbols.check(library, {"exported_one", "exported_two"}) == []


def test_a_leaked_symbol_is_found(library):
    assert (
        "exported_two is exported but not in" in check_symbols.check(library, {"exported_one"})[0]
    )


def test_a_missing_symbol_is_found(library):
    problems = check_symbols.check(library, {"exported_one", "exported_two", "exported_three"})
    assert (
        len(problems) == 1
        and "exported_three is in cmake/exported.txt but not exported" in problems[0]
    )


@pytest.mark.parametrize("scheme", ["gfarm", "gluster", "pool"])
def test_a_store_plugin_exports_its_table_and_nothing_else_of_tanada(build_folder, scheme):
    plugin = build_folder / f"lib/libtanada_store_{scheme}.so"
    if not plugin.exists():
        pytest.skip(f"the plugin of {scheme}:// is not built: its client library is not installed")
    names = {name for name in check_symbols.exported(plugin) if re.search("tanada|tnd_", name)}
    assert names == {"tnd_store_plugin"}


@pytest.fixture
def provider(build_folder):
    path = build_folder / "lib/libo2g-fi.so"
    if not path.exists():
        pytest.skip("o2g's provider is not built: libfabric-dev is not installed")
    return path


def test_the_provider_exports_its_entry_alone(provider):
    assert check_symbols.check(provider, {"fi_prov_ini"}) == []


def test_the_provider_takes_no_symbol_of_libfabric(provider):
    """The library is loaded into programs with their own libfabric, which may have another name or
    not be found.
    """
    undefined = subprocess.run(
        ["nm", "-D", "--undefined-only", provider], check=True, capture_output=True, text=True
    ).stdout
    needed = subprocess.run(
        ["readelf", "-d", provider], check=True, capture_output=True, text=True
    ).stdout
    assert " malloc" in undefined or " calloc" in undefined  # what libfabric frees
    assert " fi_" not in undefined and "libfabric" not in needed
