"""`make docs` builds the whole site without a warning, and its pages need nothing of a network."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
STEP_LIMIT_S = 800
# What a browser loads with a page, and not what its reader may follow.
LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\bsrc="([^"]+)"|<link[^>]*href="([^"]+)"[^>]*>"""
)


@pytest.fixture(scope="module")
def site():
    done = subprocess.run(
        ["tools/docs.sh"], cwd=ROOT, env={**os.environ, "TANADA_BUILD": str(BUILD)},
        capture_output=True, text=True, timeout=STEP_LIMIT_S,
    )  # fmt: skip
    if "cannot be installed" in done.stderr or "doxygen is missing" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build/docs/html"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page, text",
    [
        ("index", "One-sided data for GPU clusters"),
        ("reference/c/pool.h", "tnd_pool_commit"),
        ("reference/device", "gread_rows"),
        ("reference/python", "tanada.pool"),
        ("reference/commands", "tanada-poold"),
        ("reference/settings", "TND_GFILE_PAGE_SIZE"),
        ("measurements/fdtd", "Written by"),
        ("files/examples/shmem/ring.c", "shmem_init"),
    ],
)
def test_the_site_has_the_page(site, page, text):
    assert text in (site / f"{page}.html").read_text()


@pytest.mark.slow
def test_the_pages_load_only_files_of_the_site(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        for match in LOADED.finditer(page.read_text()):
            target = (match[1] or match[2]).partition("?")[0].partition("#")[0]
            is_local = not re.match(r"(?:[a-z]+:)?//", target)
            assert is_local, f"{page}: {target}"
            assert target.startswith("data:") or (page.parent / target).exists(), (
                f"{page}: {target} does not exist"
            )


@pytest.mark.slow
def test_the_search_knows_every_part(site):
    index = (site / "searchindex.js").read_text()
    for page in ("gfile", "reference/c/pool.h", "reference/python", "measurements/fdtd"):
        assert f'"{page}"' in index
