"""The types seen by users' checkers, tested with mypy; a planted mistake is found."""

import subprocess
import sys

import pytest

pytest.importorskip("mypy")

PROGRAM = """
import tanada

with tanada.gfile.session(page_size="64KiB", replacement="lru", timeout=2.5) as files:
    files.wait(30)
    hits: int = files.statistics().device_hits
    paths: list[str] = [file.path.name for file in files.files()]
    fault = files.fault()
    if fault is not None:
        print(tanada.status_name(fault.status), fault.words[0])
    raw: bytes = bytes(files.ref)
try:
    tanada.gfile.gfinalize()
except tanada.Error as error:
    number: int = error.status
with tanada.pool.connect("pool://node1/runs", timeout=2.5) as pool:
    pool.put("a", raw, checksum="crc32c", durable=True)
    content: bytes = pool.get("a")
    names: list[str] = [entry.name for entry in pool.list("run/")]
    with pool.create("b", "64MiB") as made:
        version: int = made.commit()
        view: memoryview = memoryview(made.map())[:10]
    request = pool.post_get("a", bytearray(10))
    done: list[tanada.pool.Request] = pool.poll(1)
"""


def mypy(site, *words):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(site / "mypy-cache"), *words],
        env={"MYPYPATH": str(site), "PATH": "/usr/bin:/bin"},
        cwd=site,
        text=True,
        capture_output=True,
        timeout=300,
    )


def test_the_package_itself(site, tmp_path):
    # Numba, CuPy, PyTorch and CUDA's bindings may be missing, and their types change from version
    # to version.
    others = (
        "[mypy-numba.*,lmcache.*,cupy.*,cuda.*,fsspec.*,torch.*]\n"
        "ignore_missing_imports = True\nfollow_imports = skip\n"
    )
    (tmp_path / "mypy.ini").write_text("[mypy]\n" + others)
    without = [
        "--allow-subclassing-any",
        "--allow-untyped-decorators",
        "--disable-error-code=no-any-return",
    ]
    done = mypy(site, "--config-file", str(tmp_path / "mypy.ini"), *without, "-p", "tanada")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_users_program(site, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = mypy(site, str(tmp_path / "program.py"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "right, wrong, error",
    [
        ("files.wait(30)", "files.wait('30')", "arg-type"),
        ('page_size="64KiB"', "pagesize=65536", "call-arg"),
        ("files.statistics().device_hits", "files.statistics().hits", "attr-defined"),
        ("if fault is not None", "if True", "union-attr"),
        ('checksum="crc32c"', "checksum=32", "arg-type"),
        ("version: int", "version: str", "assignment"),
        ('pool.list("run/")', "pool.list(count=1)", "call-arg"),
    ],
)
def test_a_users_mistake(site, tmp_path, right, wrong, error):
    assert right in PROGRAM
    (tmp_path / "program.py").write_text(PROGRAM.replace(right, wrong))
    done = mypy(site, str(tmp_path / "program.py"))
    assert done.returncode == 1 and f"[{error}]" in done.stdout
