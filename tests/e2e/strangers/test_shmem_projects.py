"""Build systems of other people's OpenSHMEM projects: make and autoconf with oshcc and oshc++ as the compilers."""

import os
import shutil

import pytest

HELLO_C = r"""
#include <shmem.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  printf("C: PE %d of %d\n", shmem_my_pe(), shmem_n_pes());
  shmem_finalize();
  return 0;
}
"""

HELLO_CXX = r"""
#include <mpp/shmem.h>
#include <mpp/shmemx.h>

#include <iostream>

int main() {
  shmem_init();
  if (shmem_my_pe() == 0) std::cout << "C++: " << shmem_n_pes() << " PEs" << (shmemx_wtime() > 0 ? "" : "?") << std::endl;
  shmem_finalize();
}
"""

MAKEFILE = """
CFLAGS = -O1 -Wall

all: hello hello_cxx
hello: hello.c
\t$(CC) $(CFLAGS) -o $@ hello.c
hello_cxx: hello_cxx.o
\t$(CXX) -o $@ hello_cxx.o
hello_cxx.o: hello_cxx.cpp
\t$(CXX) $(CFLAGS) -c -o $@ hello_cxx.cpp
"""

CONFIGURE_AC = """
AC_INIT([hello], [1.0])
AC_PROG_CC
AC_PROG_CXX
AC_CHECK_HEADERS([shmem.h shmemx.h mpp/shmem.h mpp/shmemx.h])
AC_CHECK_FUNCS([shmem_init shmemx_wtime])
test "$ac_cv_func_shmem_init" = yes || AC_MSG_ERROR([this compiler does not link OpenSHMEM])
test "$ac_cv_header_mpp_shmem_h" = yes || AC_MSG_ERROR([there is no mpp/shmem.h])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
"""

MAKEFILE_IN = "CC = @CC@\nCXX = @CXX@\n" + MAKEFILE

COMPILE_LIMIT_S = 120


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "hello.c").write_text(HELLO_C)
    (folder / "hello_cxx.cpp").write_text(HELLO_CXX)
    (folder / "Makefile").write_text(MAKEFILE)
    return folder


def run_hello(installed, folder):
    out = installed.must("oshrun", "-n", "2", folder / "hello")
    assert {line for line in out.splitlines() if line.startswith("C: ")} == {
        "C: PE 0 of 2",
        "C: PE 1 of 2",
    }
    assert "C++: 2 PEs\n" in installed.must("oshrun", "-n", "2", folder / "hello_cxx")


def test_make_with_oshcc_as_its_compiler_builds_programs_that_run(
    installed, needs_launcher, project
):
    installed.must("make", "-C", project, "CC=oshcc", "CXX=oshc++", timeout=COMPILE_LIMIT_S)
    run_hello(installed, project)


@pytest.mark.parametrize(
    "way", ["a path", "a link of another name", "a launcher before it", "an environment variable"]
)
def test_make_takes_oshcc_by_any_name(installed, project, way):
    (project / "links").mkdir()
    (project / "links/my cc").symlink_to(installed.bin / "oshcc")
    (project / "links/my c++").symlink_to(installed.bin / "oshc++")
    words = {
        "a path": [f"CC='{installed.bin}/oshcc'", f"CXX='{installed.bin}/oshc++'"],
        "a link of another name": [f"CC='{project}/links/my cc'", f"CXX='{project}/links/my c++'"],
        "a launcher before it": ["CC=env LANG=C oshcc", "CXX=env LANG=C oshc++"],
        "an environment variable": [],
    }[way]
    more = {"CC": "oshcc", "CXX": "oshc++"} if not words else {}
    installed.must(
        "make", "-C", project, *words, env=installed.environment(**more), timeout=COMPILE_LIMIT_S
    )
    assert (project / "hello").exists() and (project / "hello_cxx").exists()


@pytest.mark.skipif(
    not shutil.which("autoconf"), reason="no autoconf here: apt-get install autoconf"
)
def test_an_autoconf_project_is_configured_with_oshcc(installed, needs_launcher, project):
    (project / "configure.ac").write_text(CONFIGURE_AC)
    (project / "Makefile.in").write_text(MAKEFILE_IN)
    (project / "Makefile").unlink()
    installed.must("autoconf", cwd=project)
    out = installed.must(
        "./configure", "CC=oshcc", "CXX=oshc++", cwd=project, timeout=COMPILE_LIMIT_S
    )
    assert "checking for mpp/shmemx.h... yes" in out and "checking for shmemx_wtime... yes" in out
    installed.must("make", cwd=project, timeout=COMPILE_LIMIT_S)
    run_hello(installed, project)


def test_a_variable_that_names_the_wrapper_itself_is_refused_with_its_name(installed, project):
    done = installed.run(
        "oshcc",
        "-c",
        project / "hello.c",
        cwd=project,
        env=installed.environment(OSHCC_CC="oshcc"),
        timeout=60,
    )
    assert done.returncode == 1 and "OSHCC_CC=oshcc" in done.stderr
    script = project / "cc.sh"
    script.write_text('#!/bin/sh\nexec oshcc "$@"\n')
    script.chmod(0o755)
    done = installed.run(
        "oshcc",
        "-c",
        "hello.c",
        cwd=project,
        env=installed.environment(CC=os.fspath(script)),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
