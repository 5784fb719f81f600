"""tanada.gfile on the host executor: kernels in C++, launched from Python."""

import contextlib
import ctypes
import dataclasses
import errno
import math
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADER = (ROOT / "include/tanada/gfile.h").read_text()


@pytest.fixture
def files(tanada):
    with tanada.gfile.session(
        page_size="4KiB", device_tier_size="64KiB", host_tier_size="256KiB", timeout=20
    ) as made:
        yield made


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(index % 251 for index in range(50_001)))
    return path


@contextlib.contextmanager
def raises(tanada, number, name, message=""):
    with pytest.raises(tanada.Error, match=message or None) as caught:
        yield
    assert (caught.value.errno, caught.value.name, caught.value.status) == (number, name, -number)


@contextlib.contextmanager
def a_kernel_that_runs(kernels, files):
    flag = ctypes.c_uint32(0)
    kernels.spin(flag)
    try:
        yield flag
    finally:
        flag.value = 1
        files.wait(20)


def test_a_kernel_reads_and_the_counters_show_it(tanada, files, kernels, data):
    content = data.read_bytes()
    for _ in range(2):
        outcome = kernels.sum_file(files.ref, tanada.gfile.encode_url(data))
        files.wait(20)
        tanada.check(-outcome[0])
    assert outcome[1] == sum(content)
    now = files.statistics()
    assert not now.is_cuda and now.read_size == 2 * len(content)
    assert now.misses >= 1 and now.device_hits + now.host_hits + now.mapped_copies >= 13
    assert now.store_read_size >= len(content) and sum(now.rpc_latency) <= now.misses
    (file,) = files.files()
    assert (
        file.url == str(data)
        and file.size == len(content)
        and file.path is tanada.gfile.Path.STAGED
    )
    assert file.read_size == 2 * len(content) and file.opens == 0 and file.reason
    assert files.fault() is None


def test_a_kernel_writes(tanada, files, kernels, tmp_path):
    content = b"terrace" * 5000
    outcome = kernels.write_file(files.ref, tanada.gfile.encode_url(tmp_path / "out"), content)
    files.wait(20)
    assert outcome[0] == 0 and (tmp_path / "out").read_bytes() == content
    assert files.statistics().write_size == len(content) == files.statistics().store_write_size


def test_the_fault_of_a_kernel(tanada, files, kernels, tmp_path):
    outcome = kernels.sum_file(files.ref, tanada.gfile.encode_url(tmp_path / "absent"))
    files.wait(20)
    with raises(tanada, errno.ENOENT, "ENOENT"):
        tanada.check(-outcome[0])
    fault = files.fault()
    assert (fault.status, fault.site) == (-errno.ENOENT, tanada.gfile.Site.OPEN)
    assert tanada.status_name(fault.status) == "ENOENT"


def test_a_write_back_that_fails(tanada, files, kernels, tmp_path):
    """The process may not write files of more than 64 KiB: only the kernel's gclose returns the
    error.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, hard))
    try:
        outcome = kernels.write_file(
            files.ref, tanada.gfile.encode_url(tmp_path / "out"), b"x" * 100_000
        )
        files.wait(20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert outcome[0] == errno.EFBIG and files.statistics().write_errors > 0


def test_errors_of_settings(tanada):
    with raises(tanada, errno.EINVAL, "EINVAL", "page_size is 12345; it must be a power of two"):
        tanada.gfile.session(page_size=12345)
    with raises(tanada, errno.EINVAL, "EINVAL", "page_size is 98304; it must be a power of two"):
        tanada.gfile.session(page_size=".09375m")
    with raises(tanada, errno.EINVAL, "EINVAL", "page_size"):
        tanada.gfile.session(page_size="1TiB")  # more than the field holds
    with raises(tanada, errno.EINVAL, "EINVAL", "timeout"):
        tanada.gfile.session(timeout=0)
    for wrong in ("64 parsecs", "-1", "1.MiB", "1KB", ""):
        with pytest.raises(ValueError, match="is no size"):
            tanada.gfile.session(page_size=wrong)
    for wrong in ("two", 1.5):
        with pytest.raises(TypeError):
            tanada.gfile.session(service_threads=wrong)
    with pytest.raises(ValueError, match="service_threads is -1"):
        tanada.gfile.session(service_threads=-1)
    with raises(tanada, errno.EINVAL, "EINVAL", "direct_window_size"):
        tanada.gfile.session(direct_window_size=2**70)
    with pytest.raises(ValueError, match="none of fifo, lru, clock"):
        tanada.gfile.session(replacement="random")
    with pytest.raises(ValueError):
        tanada.gfile.session(timeout=-1)
    with pytest.raises(ValueError):
        tanada.gfile.session(host_tier_size=-4096)
    with pytest.raises(TypeError, match="pagesize"):
        tanada.gfile.ginitialize(pagesize=4096)


def test_an_error_is_an_os_error_that_can_be_pickled(tanada):
    import pickle

    error = tanada.Error(-4099, "install libgfarm1")
    assert (
        isinstance(error, OSError)
        and error.errno == 4099
        and str(error) == "TND_ENOPLUGIN: install libgfarm1"
    )
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.status, str(again)) == (tanada.Error, -4099, str(error))
    assert (
        type(tanada.Error(-errno.ENOENT)) is tanada.Error and tanada.Error(-errno.ENOENT).strerror
    )


def test_the_error_mapping_is_held_to(site, tmp_path):
    """If the sign of the status is lost, the checks above must fail."""
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    source = broken / "tanada/_error.py"
    assert "super().__init__(-status," in source.read_text()
    source.write_text(
        source.read_text().replace("super().__init__(-status,", "super().__init__(status,")
    )
    check = "import tanada\ntry: tanada.gfile.session(page_size=12345)\nexcept tanada.Error as e: print(e.errno)"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", check],
            env={**os.environ, "PYTHONPATH": str(folder)},
            text=True,
            capture_output=True,
            timeout=60,
        ).stdout
        for folder in (site, broken)
    ]
    assert outputs == ["22\n", "-22\n"]


def test_a_session_that_is_closed(tanada, kernels):
    files = tanada.gfile.session(page_size=4096)
    files.close()
    files.close()
    assert files.closed
    for call in (
        lambda: files.ref,
        files.statistics,
        files.files,
        files.fault,
        lambda: files.wait(1),
    ):
        with raises(tanada, 4100, "TND_ESTATE", "closed"):
            call()


def test_a_session_that_nobody_closes_says_so(tanada):
    with pytest.warns(ResourceWarning, match="was not closed"):
        tanada.gfile.session(page_size=4096)


def test_wait_ends_at_its_timeout_and_lets_others_run(tanada, kernels, files):
    counted = 0
    with a_kernel_that_runs(kernels, files):

        def count():
            nonlocal counted
            while not done.is_set():
                counted += 1
                time.sleep(0.001)

        done = threading.Event()
        counter = threading.Thread(target=count)
        counter.start()
        start = time.monotonic()
        with raises(tanada, errno.ETIMEDOUT, "ETIMEDOUT"):
            files.wait(0.3)
        lasted = time.monotonic() - start
        done.set()
        counter.join()
    assert 0.29 < lasted < 5
    assert counted > 20  # with the GIL held it is 0 or 1


def test_ctrl_c_ends_a_wait_without_limit(tanada, kernels, files):
    with a_kernel_that_runs(kernels, files):
        threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            files.wait(math.inf)


def another_waits(tanada, kernels, timeout):
    """A session in which another thread waits for a kernel; the flag that ends the kernel; the
    thread.
    """
    files = tanada.gfile.session(page_size=4096, timeout=timeout)
    flag = ctypes.c_uint32(0)
    kernels.spin(flag)
    waiter = threading.Thread(target=files.wait, args=(20,))
    waiter.start()
    time.sleep(0.2)  # its wait has begun
    return files, flag, waiter


def test_close_waits_for_a_wait_of_another_thread(tanada, kernels):
    files, flag, waiter = another_waits(tanada, kernels, 20)
    threading.Timer(0.3, lambda: setattr(flag, "value", 1)).start()
    start = time.monotonic()
    files.close()
    assert flag.value == 1 and time.monotonic() - start > 0.2
    waiter.join()


def test_close_gives_up_on_a_wait_without_end(tanada, kernels):
    files, flag, waiter = another_waits(tanada, kernels, 0.3)
    with raises(tanada, errno.EBUSY, "EBUSY", "stays open"):
        files.close()
    assert not files.closed
    flag.value = 1
    waiter.join()
    files.close()


def test_the_seeds_three_calls(tanada, kernels, data):
    for call in (tanada.gfile.ghandle, tanada.gfile.gfinalize):
        with raises(tanada, 4100, "TND_ESTATE"):
            call()
    files = tanada.gfile.ginitialize(page_size=4096)
    try:
        with raises(tanada, errno.EBUSY, "EBUSY"):
            tanada.gfile.ginitialize()
        outcome = kernels.sum_file(files.ref, tanada.gfile.encode_url(data))
        tanada.gfile.ghandle()
        assert outcome[1] == sum(data.read_bytes())
    finally:
        tanada.gfile.gfinalize()
    assert files.closed


def test_what_kernels_get(tanada, files):
    ref = files.ref
    assert ref.timeout_ns == 20_000_000_000 and ref.state != 0
    array = ref.as_array()
    assert array.shape == () and array.nbytes == 16 and array.tobytes() == bytes(ref)
    with tanada.gfile.session(page_size=4096, timeout=math.inf) as endless:
        assert endless.ref.timeout_ns == 2**64 - 1


def test_urls(tanada):
    assert tanada.gfile.encode_url("mem://a") == b"mem://a\0"
    assert tanada.gfile.encode_url(pathlib.Path("/a")) == b"/a\0"
    for wrong in ("", "a\0b", "x" * 1024):
        with pytest.raises(ValueError):
            tanada.gfile.encode_url(wrong)


def fields_of(struct):
    """Names of the members of a C struct of gfile.h."""
    body = re.search(rf"typedef struct {struct} \{{(.*?)\n\}} {struct};", HEADER, re.S)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    declarations = [" ".join(each.split()) for each in body.split(";") if each.strip()]
    return {
        re.sub(r"\[.*", "", name.split()[-1]) for each in declarations for name in each.split(",")
    } - {"struct_size"}


def choices_of(name):
    body = re.search(rf"typedef enum {name} \{{(.*?)\n\}} {name};", HEADER, re.S)[1]
    return {int(value) for value in re.findall(r"=\s*(\d+)", body)}


def test_nothing_of_the_header_is_left_out(tanada):
    gfile = tanada.gfile
    for record, struct in (
        (gfile.Statistics, "tnd_gfile_statistics"),
        (gfile.File, "tnd_gfile_file"),
        (gfile.Fault, "tnd_gfile_fault"),
    ):
        assert {each.name for each in dataclasses.fields(record)} == fields_of(struct)
    settings = set(gfile.session.__kwdefaults__) - {"timeout", "wait_timeout"} | {
        "timeout_ns",
        "wait_timeout_ns",
        "flags",
    }
    assert settings == fields_of("tnd_gfile_config")
    for choice in ("replacement", "device", "direct", "mapping", "path", "site"):
        assert {int(each) for each in getattr(gfile, choice.capitalize())} == choices_of(
            f"tnd_gfile_{choice}"
        )


def test_every_setting_reaches_the_library(tanada):
    with tanada.gfile.session(
        page_size="8KiB",
        device_tier_size="1MiB",
        host_tier_size="2M",
        replacement="clock",
        service_threads=2,
        timeout=1.5,
        file_count_max=7,
        device="host",
        device_index=0,
        direct="off",
        direct_window_size=65536,
        mapping="off",
        mapping_size_max="1GiB",
    ) as files:
        assert files.ref.timeout_ns == 1_500_000_000
