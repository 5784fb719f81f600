"""An installed tree is sufficient: C, kernels on the host executor, pkg-config, and nvcc if it
exists.
"""

import array
import os
import pathlib
import shutil
import subprocess
import tempfile

import check_headers
import pytest

C_PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <tanada/gfile.h>
#include <tanada/version.h>

int main(void) {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.page_size = 12345;
  tnd_gfile *files = NULL;
  tnd_status status = tnd_gfile_create(&config, &files);
  printf("%s %s %d\n", tnd_version(), tnd_status_name(status), strstr(tnd_last_message(), "page_size") != NULL);
  return 0;
}
"""

KERNEL_PROGRAM = r"""
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <cstdio>

struct sums { unsigned long long size, bytes; int status; };

TND_KERNEL void sum(const char *url, sums *out) {
  tanada::this_block block;
  TND_SHARED(tanada::u64, total);
  if (block.rank() == 0) total = 0;
  int fd = -1;
  tanada::status status = gopen(block, url, tanada::g_rdonly, &fd);
  using chunk = tanada::u8[1000];
  TND_SHARED(chunk, bytes);
  tanada::u64 offset = 0;
  while (status == tanada::status::ok) {
    tanada::gio_result read = gread(block, fd, bytes, offset, sizeof(chunk));
    status = read.status;
    block.sync();
    if (block.rank() == 0)
      for (tanada::u64 i = 0; i < read.size; i++) total += bytes[i];
    block.sync();
    offset += read.size;
    if (read.size < sizeof(chunk)) break;
  }
  tanada::status const closed = gclose(block, fd);
  if (block.rank() == 0) *out = {offset, total, int(status) | int(closed)};
}

int main(int, char **argv) {
  if (ginitialize(nullptr) != TND_OK) return 2;
  sums out{};
  tanada::simt::launch({1, 1, 1}, {64, 1, 1}, sum, (const char *)argv[1], &out);
  if (ghandle() != TND_OK || gfinalize() != TND_OK) return 3;
  std::printf("%llu %llu %d\n", out.size, out.bytes, out.status);
}
"""

CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(uses_tanada LANGUAGES C CXX {languages})
find_package(tanada 0.1 REQUIRED)
{body}
"""


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(build_folder, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("installed") / "usr"
    run("cmake", "--install", build_folder, "--prefix", prefix)
    return prefix


def test_all_that_is_installed_is_built_before(build_folder, installed):
    """It is also minimal: `make install` builds the target `installed`."""
    query = run("ninja", "-C", build_folder, "-t", "query", "installed")
    built = {pathlib.Path(line.strip()).name for line in query.splitlines()}
    for path in installed.rglob("*"):
        if path.is_symlink() or not path.is_file() or not path.read_bytes().startswith(b"\x7fELF"):
            continue
        assert path.name.split(".so.")[0] + ".so" * (".so." in path.name) in built
    assert "fdtd" not in built and not [name for name in built if name.startswith("bench")]


def cmake_project(folder, prefix, body, languages="", *options):
    (folder / "CMakeLists.txt").write_text(CMAKE_PROJECT.format(body=body, languages=languages))
    run(
        "cmake",
        "-S",
        folder,
        "-B",
        folder / "build",
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        *options,
    )
    run("cmake", "--build", folder / "build")
    return folder / "build"


def host_environment():
    return {**os.environ, "TND_GFILE_DEVICE": "host"}


def test_a_c_program_by_find_package(installed, tmp_path):
    (tmp_path / "a.c").write_text(C_PROGRAM)
    build = cmake_project(
        tmp_path, installed, "add_executable(a a.c)\ntarget_link_libraries(a tanada::tanada)"
    )
    assert run(build / "a", env=host_environment()) == "0.1.0 EINVAL 1\n"


def test_a_c_program_by_pkg_config(installed, tmp_path):
    (tmp_path / "a.c").write_text(C_PROGRAM)
    (pkgconfig,) = installed.glob("lib*/**/pkgconfig")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pkgconfig)}
    flags = run("pkg-config", "--cflags", "--libs", "tanada", env=environment).split()
    run("gcc", "-std=c11", "-Wall", "-Werror", tmp_path / "a.c", "-o", tmp_path / "a", *flags)
    output = run(
        tmp_path / "a", env={**host_environment(), "LD_LIBRARY_PATH": str(pkgconfig.parent)}
    )
    assert output == "0.1.0 EINVAL 1\n"


def test_a_kernel_on_the_host_executor(installed, tmp_path):
    (tmp_path / "a.cu").write_text(KERNEL_PROGRAM)
    data = bytes(index % 251 for index in range(150_001))
    (tmp_path / "data").write_bytes(data)
    build = cmake_project(tmp_path, installed, "tanada_kernel_executable(a HOST SOURCES a.cu)")
    output = run(build / "a", tmp_path / "data", env=host_environment())
    assert output == f"{len(data)} {sum(data)} 0\n"


def test_a_kernel_compiled_by_nvcc_where_it_is(installed, tmp_path):
    nvcc = check_headers.find_nvcc(check_headers.tree.ROOT)
    if nvcc:
        (tmp_path / "a.cu").write_text(KERNEL_PROGRAM)
        build = cmake_project(
            tmp_path,
            installed,
            "tanada_kernel_executable(a CUDA SOURCES a.cu)",
            "CUDA",
            f"-DCMAKE_CUDA_COMPILER={nvcc}",
            "-DCMAKE_CUDA_ARCHITECTURES=90",
        )
        assert (build / "a").is_file()


def test_installed_headers_are_the_public_ones_as_files(installed):
    include = installed / "include"
    listed = {path.as_posix() for path, _ in check_headers.device_headers(check_headers.tree.ROOT)}
    found = {
        path.relative_to(include / "tanada/device/detail").as_posix()
        for path in (include / "tanada/device/detail").rglob("*")
        if path.is_file()
    }
    assert found == listed
    assert not [path for path in include.rglob("*") if path.is_symlink()]


def test_destdir_is_respected(build_folder, tmp_path):
    run(
        "cmake",
        "--install",
        build_folder,
        "--prefix",
        "/opt/tanada-test",
        env={**os.environ, "DESTDIR": str(tmp_path)},
    )
    assert list(tmp_path.glob("opt/tanada-test/lib*/**/libtanada.so"))
    assert not os.path.exists("/opt/tanada-test")


ORDINARY_ID = 65534  # of no installed file


def as_ordinary_user(*command):
    """Runs the command as an unprivileged user: this one, or nobody if the tests run as root."""
    if os.geteuid() != 0:
        return command
    return (
        "setpriv",
        f"--reuid={ORDINARY_ID}",
        f"--regid={ORDINARY_ID}",
        "--clear-groups",
        *command,
    )


@pytest.fixture
def home():
    """A folder that the unprivileged user owns and can reach. Its name contains a blank."""
    with tempfile.TemporaryDirectory(prefix="tnd home ") as folder:
        path = pathlib.Path(folder)
        if os.geteuid() == 0:
            os.chown(path, ORDINARY_ID, ORDINARY_ID)
        yield path


def install_as_ordinary_user(build_folder, home):
    """`cmake --install`, with its list of files in the home folder, because the build folder may
    belong to another user.
    """
    script = (build_folder / "cmake_install.cmake").read_text()
    place = f'file(WRITE "{build_folder}/${{CMAKE_INSTALL_MANIFEST}}"'
    assert place in script
    (home / "install.cmake").write_text(
        script.replace(place, f'file(WRITE "{home}/${{CMAKE_INSTALL_MANIFEST}}"')
    )
    if (
        subprocess.run(
            as_ordinary_user("test", "-r", build_folder / "bin/tanada"), timeout=60
        ).returncode
        != 0
    ):
        pytest.skip("an ordinary user may not read the build folder")
    prefix = home / "tanada"
    run(
        *as_ordinary_user(
            "cmake", f"-DCMAKE_INSTALL_PREFIX={prefix}", "-P", home / "install.cmake"
        ),
        cwd=home,
    )
    return prefix


def test_an_ordinary_user_can_install_and_use_everything(build_folder, home):
    prefix = install_as_ordinary_user(build_folder, home)
    for name in (
        "bin/oshcc",
        "bin/oshrun",
        "bin/tanada",
        "bin/tanada-poold",
        "etc/tanada/poold.toml",
        "lib/systemd/system/tanada-poold.service",
        "lib/sysusers.d/tanada-poold.conf",
    ):
        assert (prefix / name).is_file(), name
    assert list(prefix.glob("lib*/**/pkgconfig/shmem.pc"))
    (home / "a.c").write_text(
        "#include <shmem.h>\n#include <stdio.h>\n"
        'int main(void) { shmem_init(); puts("started"); shmem_finalize(); return 0; }\n'
    )
    run(*as_ordinary_user(prefix / "bin/oshcc", home / "a.c", "-o", home / "a"), cwd=home)
    assert run(*as_ordinary_user(home / "a"), cwd=home) == "started\n"
    assert run(*as_ordinary_user(prefix / "bin/tanada", "--version"), cwd=home).startswith(
        "tanada 0."
    )
    assert "port" in run(*as_ordinary_user(prefix / "bin/tanada-poold", "--help"), cwd=home)


def test_all_is_under_the_prefix(build_folder, tmp_path):
    root = tmp_path / "root"
    run(
        "cmake",
        "--install",
        build_folder,
        "--prefix",
        "/opt/some where",
        env={**os.environ, "DESTDIR": str(root)},
    )
    outside = [
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_relative_to(root / "opt/some where")
    ]
    assert outside == []
    unit = (root / "opt/some where/lib/systemd/system/tanada-poold.service").read_text()
    assert (
        'ExecStart="/opt/some where/bin/tanada-poold" --config "/opt/some where/etc/tanada/poold.toml"'
        in unit
    )


def test_settings_of_usr_are_in_etc(build_folder, tmp_path):
    run(
        "cmake",
        "--install",
        build_folder,
        "--prefix",
        "/usr",
        env={**os.environ, "DESTDIR": str(tmp_path)},
    )
    assert (tmp_path / "etc/tanada/poold.toml").is_file() and not (tmp_path / "usr/etc").exists()
    unit = (tmp_path / "usr/lib/systemd/system/tanada-poold.service").read_text()
    assert '--config "/etc/tanada/poold.toml"' in unit


def uninstall(prefix, root=""):
    return run(
        "make", "-C", check_headers.tree.ROOT, "uninstall", f"PREFIX={prefix}", f"DESTDIR={root}"
    )


def test_what_another_version_left_is_removed(build_folder, tmp_path):
    """Its headers are found under their old names, and its plugins are loaded, as long as they
    exist.
    """
    prefix = tmp_path / "some where"
    run("cmake", "--install", build_folder, "--prefix", prefix)
    old = prefix / "include/tanada/device/impl/gfile/view.hpp"
    plugin = prefix / "lib/tanada/old/libtanada_store_old.so"
    theirs = prefix / "lib/tanada/theirs.so"
    for path in (old, plugin, theirs):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    listed = prefix / "share/tanada/installed-files.txt"
    listed.write_text(listed.read_text() + f"{plugin.relative_to(prefix)}\n")
    before = {path for path in prefix.rglob("*") if path.is_file()}
    run("cmake", "--install", build_folder, "--prefix", prefix)
    after = {path for path in prefix.rglob("*") if path.is_file()}
    assert before - after == {old, plugin} and not after - before
    assert not (prefix / "include/tanada/device/impl").exists() and not plugin.parent.exists()


def test_licence_and_manual_pages_are_installed(installed):
    assert (installed / "share/doc/tanada/LICENSE").is_file()
    pages = {path.name for path in (installed / "share/man").rglob("*.[137]")}
    commands = {f"{path.name}.1" for path in (installed / "bin").iterdir()}
    assert commands <= pages
    assert (installed / "share/bash-completion/completions/tanada").is_file()
    assert (installed / "share/zsh/site-functions/_tanada-poold").is_file()
    assert (installed / "share/fish/vendor_completions.d/tanada.fish").is_file()
    assert {"tnd_pool_commit.3", "gread_rows.3", "tanada_pool.3"} <= pages
    assert {f"tanada-{name}.7" for name in ("comex", "gfile", "o2g", "pool", "shmem")} <= pages
    text = (installed / "share/man/man1/tanada.1").read_text()
    assert ".SH NAME" in text and '.SH "TANADA POOL CP"' in text


def build_examples(installed, folder, *targets):
    """Uses only installed files: the sources are copied out of the prefix."""
    shutil.copytree(installed / "share/tanada/examples", folder / "examples")
    build = folder / "build"
    run(
        *("cmake", "-S", folder / "examples", "-B", build, "-G", "Ninja"),
        *(f"-DCMAKE_PREFIX_PATH={installed}", "-DCMAKE_CUDA_COMPILER=NOTFOUND"),
    )
    run("cmake", "--build", build, *(("--target", *targets) if targets else ()))
    return build


def test_an_installed_example_is_built_with_what_is_installed(installed, tmp_path):
    build = build_examples(installed, tmp_path, "twice", "snapshot", "shmem_ring")
    numbers = tmp_path / "numbers"
    array.array("f", range(4096)).tofile(numbers.open("wb"))
    run(build / "twice", numbers, env=host_environment())
    assert array.array("f", numbers.read_bytes())[4095] == 2 * 4095


@pytest.mark.slow  # a minute of compilers; the test before it builds three
def test_all_installed_examples_are_built(installed, tmp_path):
    assert (build_examples(installed, tmp_path) / "lbm").is_file()


def test_uninstall_leaves_nothing_but_what_others_put_there(build_folder, tmp_path):
    prefix = tmp_path / "some where"
    run("cmake", "--install", build_folder, "--prefix", prefix)
    (prefix / "lib/tanada/theirs.so").touch()
    uninstall(prefix)
    assert [
        path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if not path.is_dir()
    ] == ["lib/tanada/theirs.so"]
    assert sorted(path.name for path in prefix.rglob("*") if path.is_dir()) == ["lib", "tanada"]


def test_uninstall_of_usr_leaves_folders_of_the_distribution(build_folder, tmp_path):
    run(
        "cmake",
        "--install",
        build_folder,
        "--prefix",
        "/usr",
        env={**os.environ, "DESTDIR": str(tmp_path)},
    )
    uninstall("/usr", tmp_path)
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
    assert (tmp_path / "usr/bin").is_dir() and (tmp_path / "usr/include").is_dir()
    assert not [path for path in tmp_path.rglob("*") if "tanada" in path.name]


def test_edited_settings_of_the_daemon_stay(build_folder, tmp_path):
    prefix = tmp_path / "prefix"
    settings = prefix / "etc/tanada/poold.toml"
    run("cmake", "--install", build_folder, "--prefix", prefix)
    settings.write_text('size = "2GiB"\n')
    assert "Keeping: " in run("cmake", "--install", build_folder, "--prefix", prefix)
    assert settings.read_text() == 'size = "2GiB"\n'
    assert "keeping " in uninstall(prefix)
    assert settings.read_text() == 'size = "2GiB"\n' and not (prefix / "bin").exists()


def test_uninstall_of_nothing_is_an_error(tmp_path):
    done = subprocess.run(
        ["make", "-C", check_headers.tree.ROOT, "uninstall", f"PREFIX={tmp_path}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0 and "nothing is installed under" in done.stderr


def test_the_provider_lies_beside_the_plugins(build_folder, installed):
    if (build_folder / "lib/libo2g-fi.so").exists():
        assert list(installed.glob("lib*/**/tanada/libo2g-fi.so"))


def test_an_installed_tree_can_be_moved(installed, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(installed, moved, symlinks=True)
    (pkgconfig,) = moved.glob("lib*/**/pkgconfig")
    flags = run(
        "pkg-config", "--cflags", "tanada", env={**os.environ, "PKG_CONFIG_PATH": str(pkgconfig)}
    )
    assert os.path.samefile(flags.strip().removeprefix("-I"), moved / "include")


def test_files_of_pkg_config_below_usr_name_no_folder_that_is_searched_anyway(
    build_folder, tmp_path
):
    command = ["cmake", "--install", build_folder, "--component", "pkgconfig", "--prefix", "/usr"]
    run(*command, env={**os.environ, "DESTDIR": str(tmp_path)})
    (pkgconfig,) = tmp_path.glob("usr/lib*/**/pkgconfig")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pkgconfig)}
    for name, includes in (
        ("tanada", []),
        ("shmem", ["-I/usr/include/shmem"]),
        ("nvshmem", ["-I/usr/include/shmem/nvshmem", "-I/usr/include/shmem"]),
    ):
        assert run("pkg-config", "--cflags", name, env=environment).split() == includes
        libraries = run("pkg-config", "--libs", name, env=environment)
        assert "-l" in libraries and "rpath" not in libraries and "/usr/include" not in libraries


def test_no_logging_library_is_needed_at_run_time(build_folder):
    needed = run("readelf", "-d", build_folder / "lib/libtanada.so")
    assert "NEEDED" in needed and "libfmt" not in needed and "libspdlog" not in needed
