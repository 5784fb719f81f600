"""What goes wrong in a program with kernels is reported: no GPU, ends without gfinalize, wrong groups, failed calls."""

import pathlib
import shutil
import textwrap

import pytest

NVCC = shutil.which("nvcc") or (
    "/usr/local/cuda/bin/nvcc" if pathlib.Path("/usr/local/cuda/bin/nvcc").exists() else None
)

HEAD = """
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>
#include <cstdio>
#include <cstring>
#include <string>
#include <unistd.h>
namespace simt = tanada::simt;
struct url { char text[512]; };
static url url_of(const char *from) { url made{}; std::strncpy(made.text, from, sizeof made.text - 1); return made; }
"""

PROGRAM = (
    HEAD
    + """
TND_KERNEL void write_word(url at, unsigned offset) {
  int fd = -1;
  if (gopen(at.text, tanada::g_wronly | tanada::g_creat, &fd) != tanada::status::ok) return;
  (void)gwrite(fd, at.text, offset, 5);
  if (at.text[511] == 0) return;  // never: the file stays open
  (void)gclose(fd);
}

TND_KERNEL void read_nothing(url at) {
  int fd = -1;
  (void)gopen(at.text, tanada::g_rdonly, &fd);
}

// A block opens with one thread only.
TND_KERNEL void open_with_one_thread(url at, bool others_wait) {
  int fd = -1;
  if (simt::thread_rank_in_block() == 0) (void)gopen(tanada::this_block{}, at.text, tanada::g_rdonly, &fd);
  if (others_wait) simt::block_barrier();
}

TND_KERNEL void open_many(url at, int count) {
  url mine = at;
  size_t const length = std::strlen(mine.text);
  for (int i = int(simt::global_thread_rank()); i < count; i += 512) {
    int rest = i;
    for (int digit = 5; digit-- > 0; rest /= 10) mine.text[length + digit] = char('0' + rest % 10);
    int fd = -1;
    (void)gopen(mine.text, tanada::g_wronly | tanada::g_creat, &fd);
    (void)gwrite(fd, "x", 0, 1);
    (void)gclose(fd);
  }
}

int main(int argc, char **argv) {
  std::string const what = argv[1];
  url const at = url_of(argv[2]);
  int const begun = ginitialize(nullptr);
  if (begun != TND_OK) return std::printf("ginitialize: %s: %s\\n", tnd_status_name(begun), tnd_last_message()), 3;
  if (what == "write") (void)simt::launch({1}, {1}, write_word, at, 0u);
  if (what == "write far") (void)simt::launch({1}, {1}, write_word, at, 1u << 20);
  if (what == "missing") (void)simt::launch({1}, {1}, read_nothing, at);
  if (what == "alone") (void)simt::launch({1}, {64}, open_with_one_thread, at, false);
  if (what == "mixed") (void)simt::launch({1}, {64}, open_with_one_thread, at, true);
  if (what == "many") (void)simt::launch({1}, {512}, open_many, at, 3000);
  int const waited = ghandle();
  std::printf("ghandle: %s: %s\\n", tnd_status_name(waited), tnd_last_message());
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  if (tnd_gfile_get_fault(tnd_gfile_default(), &fault) != TND_OK) return 4;
  std::printf("fault: %s of '%s'\\n", tnd_status_name(fault.status), fault.url);
  std::fflush(stdout);
  if (argc > 3) {
    if (std::string{argv[3]} == "_exit") _exit(0);
    return 0;
  }
  return gfinalize() == TND_OK ? 0 : 5;
}
"""
)

CUDA_PROGRAM = (
    HEAD
    + """
TND_KERNEL void fill(int *values) { values[simt::thread_rank_in_block()] = 7; }

int main(int, char **argv) {
  std::string const what = argv[1];
  static int values[32];
  if (what == "bare") {
    tanada::status const launched = simt::launch({1}, {32}, fill, values).status;
    std::printf("launch: %s: %s\\n", tnd_status_name(int(launched)), tnd_last_message());
    return launched == tanada::status::ok ? 0 : 3;
  }
  int const begun = ginitialize(nullptr);
  std::printf("ginitialize: %s: %s\\n", tnd_status_name(begun), tnd_last_message());
  (void)simt::launch({1}, {32}, fill, values);
  int const waited = ghandle();
  std::printf("ghandle: %s: %s\\n", tnd_status_name(waited), tnd_last_message());
  return waited == TND_OK ? 0 : 3;
}
"""
)


@pytest.fixture(scope="module")
def program(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    return installed.compile_c(
        folder, PROGRAM, "-std=c++17", "-DTND_HOST_EXECUTOR", "-pthread", compiler="g++"
    )


@pytest.fixture(scope="module")
def cuda_program(installed, tmp_path_factory):
    if NVCC is None:
        pytest.skip("no nvcc")
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "include").symlink_to(installed.path / "include")
    (folder / "lib").symlink_to(installed.lib)
    (folder / "program.cu").write_text(textwrap.dedent(CUDA_PROGRAM))
    installed.must(
        NVCC,
        "-std=c++17",
        "-arch=sm_90",
        "-Iinclude",
        "program.cu",
        "-o",
        "program",
        "-Llib",
        "-ltanada",
        cwd=folder,
    )
    return folder / "program"


def has_gpu():
    return pathlib.Path("/dev/nvidia0").exists()


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
@pytest.mark.parametrize("device", [None, "host"])
def test_a_cuda_program_without_a_gpu_is_told_so(installed, cuda_program, device):
    environment = installed.environment(**({"TND_GFILE_DEVICE": device} if device else {}))
    done = installed.run(cuda_program, "gfile", env=environment)
    assert done.returncode == 3, done.stdout + done.stderr
    begun, waited = done.stdout.splitlines()
    if device is None:
        assert begun.startswith(("ginitialize: ENODEV", "ginitialize: TND_ENOPLUGIN")), begun
        assert "CUDA" in begun or "cuda" in begun, begun
    else:
        assert begun.startswith("ginitialize: OK") or begun.startswith("ginitialize: TND_OK"), begun
        assert waited.startswith("ghandle: EINVAL: a launch was refused: "), waited
    assert "CUDA" in done.stderr or "cuda" in done.stderr, done.stderr


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
def test_a_launch_without_a_gpu_returns_the_drivers_words(installed, cuda_program):
    done = installed.run(cuda_program, "bare")
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.startswith("launch: ENODEV: a launch was refused: "), done.stdout
    assert "a kernel was not launched" in done.stderr


def test_what_gwrite_took_is_written_by_an_exit_without_gfinalize(installed, program, tmp_path):
    target = tmp_path / "left open"
    installed.must(program, "write", target, "exit")
    assert target.read_bytes() == str(target).encode()[:5]


def test_what_cannot_be_written_at_exit_is_logged(installed, program, tmp_path):
    target = tmp_path / "too large"
    # The file may have 64 KiB, and the kernel writes at 1 MiB.
    done = installed.run(
        "sh", "-c", 'ulimit -f 128; exec "$0" "write far" "$1" exit', program, target
    )
    assert (
        "the process ends without gfinalize, and data of gwrite are lost (EFBIG): 1 files"
        in done.stderr
    ), done.stderr
    assert "too large" in done.stderr


def test_a_failed_call_is_named_with_its_url(installed, program, tmp_path):
    missing = tmp_path / "missing"
    output = installed.must(program, "missing", missing)
    assert f'gopen of "{missing}" failed in a kernel: ENOENT' in output
    assert f"fault: ENOENT of '{missing}'" in output


@pytest.mark.parametrize("how", ["alone", "mixed"])
def test_a_block_that_opens_with_one_thread_is_reported(installed, program, tmp_path, how):
    done = installed.run(program, how, tmp_path)
    assert done.returncode != 0
    assert "in gopen, a collective call of this_block" in done.stderr, done.stderr


def test_more_files_than_the_process_has_descriptors_are_written_with_default_settings(
    installed, program, tmp_path
):
    output = installed.must("sh", "-c", 'ulimit -n 128; exec "$0" many "$1/f"', program, tmp_path)
    assert "fault: OK" in output or "fault: TND_OK" in output, output
    assert sum(1 for _ in tmp_path.iterdir()) == 3000
