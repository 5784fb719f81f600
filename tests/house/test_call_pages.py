"""Manual pages of section 3: every exported call has one, which groff takes without a warning."""

import pathlib
import re
import shutil
import subprocess

import call_pages
import pytest

ROOT = pathlib.Path(call_pages.__file__).resolve().parents[1]
HEADERS = [*sorted((ROOT / "include/tanada").glob("*.h")), ROOT / "include/tanada/device/gfile.cuh"]
C_HEADER = """/* tanada/a.h: an example. C11.
 *
 * For every call:
 *   Threads: any thread.
 */
/** A constant. */
#define TND_A 1

/**
 * Open `name`. It is read.
 *
 * Ownership: the caller closes it.
 * Thread safety: any thread.
 * @param name [in]  a name that
 * goes on.
 *
 * A last word.
 * @return TND_OK       it is
 *         open.
 * @return -EIO, -ENOSPC  it is not.
 */
TND_API TND_NODISCARD tnd_status tnd_a_open(const char *name,
                                            uint64_t a_parameter_with_a_long_name) TND_NOEXCEPT;
"""
DEVICE_HEADER = """// tanada/b.cuh: another. C++17.
#pragma once

/// Read.
///
/// Errors: io.
template <class Group>
TND_DEVICE status b_read(Group group);
/// The same.
template <class Group>
TND_DEVICE status b_read(Group group, int size);
"""


def made(tmp_path, name, text):
    path = tmp_path / "include/tanada" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return call_pages.pages(path, "1.0")


def test_a_call_has_its_comment_in_parts(tmp_path):
    pages = made(tmp_path, "a.h", C_HEADER)
    assert sorted(pages) == ["tanada_a", "tnd_a_open"]
    assert pages["tnd_a_open"] == [
        '.TH "TND_A_OPEN" "3" "" "tanada 1.0" "Tanada"',
        ".SH NAME",
        "tnd_a_open \\- open name",
        ".SH SYNOPSIS",
        ".nf",
        "#include <tanada/a.h>",
        "",
        "tnd_status tnd_a_open(",
        "    const char *name,",
        "    uint64_t a_parameter_with_a_long_name);",
        ".fi",
        ".SH DESCRIPTION",
        "Open \\fBname\\fR\\&. It is read.",
        ".PP",
        "Ownership: the caller closes it.",
        ".PP",
        "Thread safety: any thread.",
        ".PP",
        "A last word.",
        ".SH PARAMETERS",
        ".TP",
        "\\fIname\\fR",
        "[in] a name that goes on.",
        ".SH RETURN VALUE",
        ".TP",
        "\\fBTND_OK\\fR",
        "it is open.",
        ".TP",
        "\\fB\\-EIO, \\-ENOSPC\\fR",
        "it is not.",
        ".SH SEE ALSO",
        "tanada_a(3): what holds for every call of the header",
    ]
    assert "  Threads: any thread." in pages["tanada_a"]


def test_overloads_of_a_call_in_kernels_share_a_page(tmp_path):
    page = made(tmp_path, "b.cuh", DEVICE_HEADER)["b_read"]
    assert "template <class Group> status b_read(Group group);" in page
    assert "template <class Group> status b_read(Group group, int size);" in page
    assert page.index("Errors: io.") < page.index("The same.")


def test_every_exported_call_of_these_headers_has_a_page():
    exported = set((ROOT / "cmake/exported.txt").read_text().split())
    declared = {
        name
        for path in HEADERS
        for name in re.findall(r"\b((?:tnd|o2g)_\w+|g\w+)\(", path.read_text())
        if name in exported
    }
    names = {name for path in HEADERS for name in call_pages.pages(path, "")}
    assert declared - names == set()
    assert {"tnd_pool_commit", "ginitialize", "o2g_poll", "gread_rows", "tanada_pool"} <= names


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_every_page_is_taken_by_groff():
    for path in HEADERS:
        text = "\n".join("\n".join(lines) for lines in call_pages.pages(path, "1.0").values())
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"], input=text, capture_output=True, text=True
        )
        assert done.returncode == 0 and done.stderr == "", f"{path}: {done.stderr}"
