"""The wheel that pip builds: complete, without links and without build-only files."""

import re
import stat
import subprocess
import sys
import zipfile

from package import ROOT, run

LISTED = {
    "__init__.py",
    "gfile.py",
    "pool.py",
    "fsspec.py",
    "numba/__init__.py",
    "numba/block.py",
    "cupy.py",
    "py.typed",
    "shmem.py",
    "torch.py",
    "_native.pyi",
    "_numba.cu",
    "lib/libtanada.so",
    "bin/tanada",
    "bin/tanada-poold",
    "lib/tanada/libtanada_shmem_stream_host.so",
    "include/tanada/gfile.h",
    "include/tanada/device/gfile.cuh",
    "include/tanada/device/detail/simt/group.hpp",
}


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info for info in archive.infolist()}


def test_everything_is_there_once(wheel):
    entries = names_in(wheel)
    assert {f"tanada/{name}" for name in LISTED} <= set(entries)
    libraries = [name for name in entries if "libtanada.so" in name]
    assert sorted(libraries) == ["tanada/lib/libtanada.so", "tanada/lib/libtanada.so.0"]
    assert entries["tanada/lib/libtanada.so"].file_size < 100  # a linker script, not a copy
    assert not [name for name, info in entries.items() if stat.S_ISLNK(info.external_attr >> 16)]
    assert not [
        name for name in entries if re.search(r"\.a$|cmake|pkgconfig|/src/|\.cc$|tests", name)
    ]
    assert len([name for name in entries if "_native." in name and name.endswith(".so")]) == 1


def test_the_version_is_the_librarys(wheel, tanada):
    version = re.search(
        r'TND_VERSION_STRING "(.*)"', (ROOT / "include/tanada/version.h").read_text()
    )[1]
    assert wheel.name.startswith(f"tanada-{version}-") and tanada.__version__ == version


def test_nothing_points_to_where_it_was_built(site):
    (extension,) = site.glob("tanada/_native*.so")
    for library in (extension, site / "tanada/lib/libtanada.so.0"):
        dynamic = run("readelf", "-d", library)
        paths = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic)
        assert all(path.startswith("$ORIGIN") for path in paths)


def test_import_asks_for_nothing_but_python(site):
    """No NumPy, Numba, CuPy or CUDA until they are used."""
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            "import sys; import tanada; print(sorted(set(sys.modules) & "
            "{'numpy', 'numba', 'cupy', 'cuda'}))",
        ],
        env={"PYTHONPATH": str(site)},
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == "[]\n", done.stderr


def test_the_commands_run_a_pool(wheel, tmp_path):
    """As pip installs them, in a separate folder."""
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--target",
        tmp_path,
        wheel,
    )
    environment = {"PYTHONPATH": str(tmp_path)}
    for name in ("tanada", "tanada-poold"):
        done = subprocess.run(
            [tmp_path / "bin" / name, "--version"],
            env=environment,
            text=True,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0 and "0." in done.stdout, done.stderr
    program = """
import subprocess, sys, tanada
with tanada.pool.serve("64MiB", "--segment-size", "2MiB") as url, tanada.pool.connect(f"{url}/run7") as pool:
    pool.put("a", b"content")
    subprocess.run([sys.argv[1], "pool", "cat", f"{url}/run7/a"], check=True)
try:
    with tanada.pool.serve("64MiB", "--no-such-option"):
        pass
except RuntimeError as error:
    assert "--no-such-option" in str(error), error
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "bin/tanada"],
        env=environment,
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "content"), done.stderr
