"""The pages of the documentation site, as tools/site_pages.py makes them for Sphinx."""

import pathlib
import re
import shutil
import subprocess

import pytest
import site_pages
import site_reference

HELP = """The daemon.

Options:
  -h,--help                   Print this help message and exit
  --port UINT=7440            TCP port; 0 chooses a free one
  --quota TEXT ...            NAMESPACE=SIZE
  --protocol UINT:UINT in [5 - 7]=7
                              the newest version that is used
  --no-prefault               do not populate all memory at the start
"""


@pytest.fixture
def programs(tmp_path):
    """Commands that only have --help, and a comment."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (*site_reference.COMMANDS, *site_reference.SCRIPTS):
        text = HELP if name == "tanada-poold" else "A command."
        (folder / name).write_text(f"#!/bin/sh\n# A script.\ncat <<'END'\n{text}\nEND\n")
        (folder / name).chmod(0o755)
    return folder


def made_page(tree, tmp_path, name, text):
    """The text of a page of docs/ on the site."""
    (tree / "docs" / name).write_text(text)
    out = site_pages.site(tree, tmp_path / "out")
    out.page(f"docs/{name}", name)
    out.show_files()
    return (tmp_path / "out" / name).read_text()


@pytest.mark.parametrize(
    "link, target",
    [
        ("pool.md", "pool.md"),
        ("pool.md#flags", "pool.md#flags"),
        ("#below", "#below"),
        ("https://example.org", "https://example.org"),
        ("../README.md", "index.md"),
        ("README.md", "index.md"),
        ("../CONTRIBUTING.md", "contributing.md"),
        ("../include/tanada/pool.h", "reference/c/pool.h.md"),
        ("../include/tanada/device/gfile.cuh", "reference/device.md"),
        ("../examples/shmem/ring.c", "files/examples/shmem/ring.c.md"),
        ("measurements/fdtd.json", "measurements/fdtd.json"),
    ],
)
def test_a_link_leads_to_a_page_of_the_site(tree_copy, tmp_path, link, target):
    text = made_page(tree_copy, tmp_path, "planted.md", f"# A\n\n[a `b`]({link}) and more\n")
    assert f"[a `b`]({target}) and more" in text


def test_a_link_in_code_stays_as_it_is(tree_copy, tmp_path):
    text = made_page(tree_copy, tmp_path, "planted.md", "# A\n\n```text\n[a](../README.md)\n```\n")
    assert "[a](../README.md)" in text


def test_a_linked_file_has_a_page_with_its_text(tree_copy, tmp_path):
    made_page(tree_copy, tmp_path, "planted.md", "# A\n\n[a](../examples/shmem/ring.c)\n")
    page = (tmp_path / "out/files/examples/shmem/ring.c.md").read_text()
    assert "```c\n" in page and "shmem_init" in page


def test_every_setting_has_a_row_with_a_meaning(tree_copy, programs):
    (tree_copy / site_reference.SETTINGS).write_text(
        'string_view setting_names[] = {\n    // the level\n    // of the log\n    "TND_LOG",\n'
        '    "TND_POOLD_PORT",\n    "TND_POOLD_PREFAULT",\n    "TND_POOLD_PROTOCOL",\n};\n'
    )
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", page_of(tree_copy, programs), re.M)
    poold = "of [tanada-poold](commands.md#tanada-poold)"
    assert rows == [
        ("TND_LOG", "the level of the log"),
        ("TND_POOLD_PORT", f"`--port` {poold}: TCP port; 0 chooses a free one"),
        ("TND_POOLD_PREFAULT", f"`--no-prefault` {poold}: do not populate all memory at the start"),
        ("TND_POOLD_PROTOCOL", f"`--protocol` {poold}: the newest version that is used"),
    ]


def page_of(tree, programs):
    return site_reference.settings_page(tree, programs)


def test_a_setting_that_nothing_describes_is_an_error(tree_copy, programs):
    table = tree_copy / site_reference.SETTINGS
    table.write_text('string_view setting_names[] = {\n    "TND_LOG",\n};\n')
    with pytest.raises(SystemExit, match="TND_LOG of .* has no comment and is no flag"):
        page_of(tree_copy, programs)


def test_a_header_begins_with_its_contract(tree_copy):
    summary, rest = site_reference.comment_at_top(tree_copy / "include/tanada/pool.h")
    assert summary == "the client API of the memory pool. C11 and C++20."
    assert rest.startswith("The paper: Onishi") and "For every call:\n  Threads:" in rest
    summary, rest = site_reference.comment_at_top(tree_copy / "include/tanada/device/gfile.cuh")
    assert summary.startswith("files from inside kernels") and "Group:      collective" in rest


@pytest.mark.skipif(shutil.which("doxygen") is None, reason="no doxygen")
@pytest.mark.parametrize(
    "old, new, finding",
    [
        ("/** Free a listing. NULL is a no-op. */\n", "", "tnd_store_listing_destroy"),
        ("@param listing [out]", "@param list [out]", "argument 'list' of command @param"),
        ("uint32_t reserved;    /**< 0 */", "uint32_t reserved;", "Member reserved (variable)"),
        (None, None, None),
    ],
)
def test_doxygen_refuses_an_entity_without_a_comment(tree_copy, tmp_path, old, new, finding):
    header = tree_copy / "include/tanada/store.h"
    text = header.read_text()
    if old:
        assert old in text
        header.write_text(text.replace(old, new, 1))
    done = subprocess.run(
        ["doxygen", "docs/site/Doxyfile"], cwd=tree_copy, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "TANADA_DOXYGEN_FOLDER": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode == 0) == (old is None), done.stderr
    assert finding is None or finding in done.stderr
    assert pathlib.Path(tmp_path / "xml/index.xml").exists()
