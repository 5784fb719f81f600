"""A misspelt setting is an error in every product, and the message names the right spelling."""

import pytest

FILES = r"""
#include <stdio.h>
#include <tanada/gfile.h>
int main(void) {
  tnd_gfile *files = NULL;
  tnd_status status = tnd_gfile_create(NULL, &files);
  printf("%s: %s\n", tnd_status_name(status), tnd_last_message());
  return status == TND_OK ? 0 : 1;
}
"""

POOL = r"""
#include <stdio.h>
#include <tanada/pool.h>
int main(void) {
  tnd_pool *pool = NULL;
  tnd_status status = tnd_pool_connect("pool://127.0.0.1:9/a", NULL, &pool);
  printf("%s: %s\n", tnd_status_name(status), tnd_last_message());
  return status == TND_OK ? 0 : 1;
}
"""

RECEIVER = r"""
#include <stdio.h>
#include <tanada/o2g.h>
#include <tanada/status.h>
int main(void) {
  tnd_status status = o2g_init(1);
  printf("%s: %s\n", tnd_status_name(status), tnd_last_message());
  return status == TND_OK ? 0 : 1;
}
"""

ELEMENTS = "#include <shmem.h>\nint main(void) { shmem_init(); shmem_finalize(); return 0; }\n"


@pytest.mark.parametrize(
    "program, wrong, right",
    [
        (FILES, "TND_GFILE_PAGESIZE", "TND_GFILE_PAGE_SIZE"),
        (POOL, "TND_POOL_KEYFILE", "TND_POOL_KEY_FILE"),
        (RECEIVER, "TND_O2G_TICKS", "TND_O2G_TICK"),
    ],
    ids=["gfile", "pool", "o2g"],
)
def test_a_misspelt_name_is_refused_by_the_library(installed, tmp_path, program, wrong, right):
    path = installed.compile_c(tmp_path, program)
    done = installed.run(path, env=installed.environment(**{wrong: "64K"}))
    assert done.returncode == 1 and done.stdout.startswith(
        f"EINVAL: the environment sets {wrong}"
    ), done.stdout + done.stderr
    assert f"use {right} if" in done.stdout
    assert f"error: the environment sets {wrong}" in done.stderr


def test_a_misspelt_name_ends_an_openshmem_program(installed, tmp_path):
    (tmp_path / "a.c").write_text(ELEMENTS)
    installed.must("oshcc", tmp_path / "a.c", "-o", tmp_path / "a")
    assert installed.run(tmp_path / "a").returncode == 0
    done = installed.run(tmp_path / "a", env=installed.environment(TND_PGAS_TIMEOUTS="5s"))
    assert done.returncode != 0 and "use TND_PGAS_TIMEOUT if" in done.stderr


@pytest.mark.parametrize(
    "command",
    [["tanada-poold", "--port", "0"], ["tanada", "pool", "ls", "pool://127.0.0.1:9/a"]],
    ids=["daemon", "command"],
)
def test_a_misspelt_name_ends_a_program_of_ours(installed, command):
    done = installed.run(*command, env=installed.environment(TND_POOLD_SIZES="1M"), timeout=60)
    assert done.returncode != 0 and "use TND_POOLD_SIZE if" in done.stderr


def test_a_level_of_the_log_that_does_not_exist_is_refused(installed, tmp_path):
    done = installed.run(
        installed.compile_c(tmp_path, FILES), env=installed.environment(TND_LOG="verbose")
    )
    assert (
        done.returncode == 1
        and "TND_LOG=verbose is invalid; choose one of: off, error, warning, info, debug"
        in done.stdout
    )


def test_doctor_lists_the_misspelt_name(installed):
    done = installed.run("tanada", "doctor", env=installed.environment(TND_GFILE_PAGESIZE="64K"))
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "TND_GFILE_PAGESIZE" in line]
    assert line.startswith("broken") and "TND_GFILE_PAGE_SIZE" in line
