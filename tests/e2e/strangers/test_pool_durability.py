"""Durable objects of a pool, as programs write them that do not know the size: each small step makes the object longer.

And a pool whose disk is full: whoever removes objects makes room.
"""

import contextlib
import os
import re
import signal
import subprocess
import time

import pytest

LIMIT_S = 120  # on a busy machine

PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tanada/pool.h>

#define OBJECTS 12
#define OTHERS 3

static const uint64_t steps[OBJECTS] = {64, 100, 777, 1000, 4096, 5000, 10000, 30001, 65535, 65536, 70000, 200000};

static void check(tnd_status code, const char *call) {
  if (code == TND_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, tnd_status_name(code), tnd_last_message());
  exit(1);
}

static uint64_t size_of(int i) { return steps[i] * 25 < 100000 ? 100000 + 13 * (uint64_t)i : steps[i] * 7 / 2 + 100000; }

static unsigned char *contents(uint64_t size, unsigned seed) {
  unsigned char *bytes = malloc(size);
  for (uint64_t at = 0; at < size; at++) bytes[at] = (unsigned char)((at * 2654435761u >> 7) + seed * 31);
  return bytes;
}

static void write_one(tnd_pool *pool, int i, unsigned round) {
  char name[64];
  uint64_t const size = size_of(i);
  unsigned char *bytes = contents(size, round * 100 + (unsigned)i);
  tnd_pool_object *object = NULL;
  snprintf(name, sizeof name, "grown%d", i);
  check(tnd_pool_create(pool, name, i % 3 == 0 ? steps[i] : 0, 0, NULL, &object), "create");
  for (uint64_t at = 0; at < size; at += steps[i]) {
    uint64_t const part = size - at < steps[i] ? size - at : steps[i];
    check(tnd_pool_write(object, at, bytes + at, part, TND_POOL_MEMORY_HOST), "write");
    if (i % 2 == 0 || at / steps[i] % 20 != 0) continue;
    snprintf(name, sizeof name, "small%d", (int)(at / steps[i] / 20 % OTHERS));
    check(tnd_pool_put(pool, name, bytes, 10 + (uint64_t)i, TND_POOL_DURABLE, NULL), "put");
  }
  tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
  options.flags = TND_POOL_DURABLE;
  options.checksum_kind = TND_POOL_CHECKSUM_CRC32C;
  uint64_t version = 0;
  check(tnd_pool_commit(object, &options, &version), "commit");
  tnd_pool_close(object);
  printf("%d %u\n", i, round);
  fflush(stdout);
  free(bytes);
}

static void read_one(tnd_pool *pool, int i, unsigned low, unsigned high) {
  char name[64];
  uint64_t size = 0;
  unsigned char *bytes = malloc(2000000);
  snprintf(name, sizeof name, "grown%d", i);
  check(tnd_pool_get(pool, name, bytes, 2000000, &size, TND_POOL_VERIFY), name);
  for (unsigned round = low; round <= high; round++) {
    unsigned char *expected = contents(size_of(i), round * 100 + (unsigned)i);
    int const same = size == size_of(i) && memcmp(bytes, expected, size) == 0;
    free(expected);
    if (!same) continue;
    free(bytes);
    return;
  }
  fprintf(stderr, "%s has other bytes than were written\n", name);
  exit(1);
}

/* Commits that nobody waits for. */
static void put_many(tnd_pool *pool, int count) {
  char name[64];
  for (int i = 0; i < count; i++) {
    snprintf(name, sizeof name, "many%d", i);
    check(tnd_pool_put(pool, name, &i, sizeof i, 0, NULL), name);
  }
}

static void get_many(tnd_pool *pool, int count) {
  char name[64];
  for (int i = 0; i < count; i++) {
    int number = -1;
    uint64_t size = 0;
    snprintf(name, sizeof name, "many%d", i);
    check(tnd_pool_get(pool, name, &number, sizeof number, &size, 0), name);
    if (number != i) exit(1);
  }
}

/* write URL ROUND COUNT, or read URL and three numbers an object: its index and the rounds that it
 * may be of; put URL COUNT and get URL COUNT: objects that are not durable */
int main(int argc, char **argv) {
  tnd_pool *pool = NULL;
  check(tnd_pool_connect(argv[2], NULL, &pool), "connect");
  if (strcmp(argv[1], "write") == 0) {
    for (unsigned round = (unsigned)atoi(argv[3]), end = round + (unsigned)atoi(argv[4]); round < end; round++)
      for (int i = 0; i < OBJECTS; i++) write_one(pool, i, round);
  }
  if (strcmp(argv[1], "put") == 0) put_many(pool, atoi(argv[3]));
  if (strcmp(argv[1], "get") == 0) get_many(pool, atoi(argv[3]));
  for (int k = 3; strcmp(argv[1], "read") == 0 && k + 2 < argc; k += 3)
    read_one(pool, atoi(argv[k]), (unsigned)atoi(argv[k + 1]), (unsigned)atoi(argv[k + 2]));
  tnd_pool_disconnect(pool);
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(installed, tmp_path_factory):
    return installed.compile_c(
        tmp_path_factory.mktemp("durable"), PROGRAM, "-std=c11", "-Wall", "-Werror"
    )


class Pool:
    """A daemon over a file, which ends and starts again."""

    def __init__(self, installed, folder, backing=None):
        self.installed, self.folder, self.port, self.process = installed, folder, 0, None
        self.backing = backing or f"file:{folder}/memory"
        self.settings = {}

    @property
    def url(self):
        return f"pool://localhost:{self.port}/results"

    def start(self):
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        command = [
            self.installed.bin / "tanada-poold",
            "--size",
            "64MiB",
            "--port",
            str(self.port),
            "--port-file",
            port_file,
            "--backing",
            self.backing,
        ]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.installed.environment(**self.settings),
            )
        deadline = time.monotonic() + LIMIT_S
        while not port_file.exists() or not port_file.read_text().strip():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.02)
        self.port = int(port_file.read_text().split()[0])

    def stop(self, number):
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(LIMIT_S)
        self.process = None

    def log(self):
        return (self.folder / "log").read_text()


@pytest.fixture
def pool(installed, tmp_path):
    made = Pool(installed, tmp_path)
    made.start()
    yield made
    with contextlib.suppress(ProcessLookupError):
        made.stop(signal.SIGKILL)


def rounds_of(text):
    """The last round that was committed, of each object."""
    return {int(line.split()[0]): int(line.split()[1]) for line in text.splitlines()}


def read(pool, program, expected, more=0):
    numbers = [word for index, last in expected.items() for word in (index, last, last + more)]
    done = pool.installed.run(program, "read", pool.url, *numbers)
    assert done.returncode == 0, done.stderr + pool.log()


def test_objects_that_grew_are_there_after_the_daemon_was_stopped(pool, program):
    for life in range(3):
        committed = rounds_of(pool.installed.must(program, "write", pool.url, life, 1))
        assert set(committed.values()) == {life}
        pool.stop(signal.SIGTERM)
        pool.start()
        read(pool, program, committed)
    assert "damaged" not in pool.log().replace("0 are damaged", "")


def test_objects_that_grew_are_there_after_the_daemon_was_killed(pool, program, tmp_path):
    committed = rounds_of(pool.installed.must(program, "write", pool.url, 0, 1))
    for life in range(1, 5):
        with (tmp_path / "written").open("w+") as written:
            writer = subprocess.Popen(
                [program, "write", pool.url, str(1000 * life), "1000"],
                stdout=written,
                text=True,
                stderr=subprocess.DEVNULL,
                env=pool.installed.environment(),
            )
            deadline = time.monotonic() + LIMIT_S
            while (tmp_path / "written").read_text().count(
                "\n"
            ) < 3 * life and time.monotonic() < deadline:
                time.sleep(0.001)
            pool.stop(signal.SIGKILL)
            assert writer.wait(LIMIT_S) != 0
        committed |= rounds_of((tmp_path / "written").read_text())
        pool.start()
        # A commit that had no answer may have been carried out.
        read(pool, program, committed, more=1000)


def test_commits_that_nobody_waited_for_survive_a_clean_stop(installed, pool, program):
    """They are many more than are written while the answers under way are sent."""
    pool.stop(signal.SIGTERM)
    pool.settings = {"TND_POOLD_DRAIN": "1ms"}
    pool.start()
    installed.must(program, "put", pool.url, 2000)
    pool.stop(signal.SIGTERM)
    pool.start()
    installed.must(program, "get", pool.url, 2000)


def test_commits_that_a_stop_had_no_time_to_write_are_reported(installed, pool, program):
    report = re.compile(r"the last \d+ commits were not written before the daemon ended")
    pool.stop(signal.SIGTERM)
    pool.settings = {"TND_POOLD_WRITE_BEHIND": "1ms"}
    for _ in range(20):  # a fast disk may have written all of them
        pool.start()
        installed.must(program, "put", pool.url, 2000)
        pool.stop(signal.SIGTERM)
        if report.search(pool.log()):
            return
    pytest.fail(pool.log())


FILL_AND_REMOVE = r"""
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <tanada/pool.h>

static void check(tnd_status code, const char *call, int number) {
  if (code == TND_OK) return;
  fprintf(stderr, "%s of object %d: %s: %s\n", call, number, tnd_status_name(code), tnd_last_message());
  exit(1);
}

static const char *name_of(int number) {
  static char name[32];
  snprintf(name, sizeof name, "object%d", number);
  return name;
}

/* URL SIZE: fills the disk with durable objects of that size, then removes each. */
int main(int argc, char **argv) {
  tnd_pool *pool = NULL;
  uint64_t const size = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
  char *bytes = calloc(size + 1, 1);
  int count = 0;
  check(tnd_pool_connect(argv[1], NULL, &pool), "connect", 0);
  tnd_status code = TND_OK;
  while (count < 10000 && (code = tnd_pool_put(pool, name_of(count), bytes, size, TND_POOL_DURABLE, NULL)) == TND_OK) count++;
  if (code != -ENOSPC) check(code != TND_OK ? code : -EIO, "the put that fills the disk", count);
  code = tnd_pool_remove(pool, name_of(count), TND_POOL_DURABLE);
  if (code != TND_OK && code != -ENOENT) check(code, "remove", count);
  for (int i = 0; i < count; i++) check(tnd_pool_remove(pool, name_of(i), TND_POOL_DURABLE), "remove", i);
  for (int i = 0; i < 2; i++) check(tnd_pool_put(pool, name_of(i), bytes, size, TND_POOL_DURABLE, NULL), "the put after", i);
  printf("%d\n", count);
  tnd_pool_disconnect(pool);
  return 0;
}
"""


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tanada", folder]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("only root with the right to mount can have a small file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_emptied_by_removing_objects(installed, small_disk, tmp_path):
    program = installed.compile_c(tmp_path, FILL_AND_REMOVE, "-std=c11", "-Wall", "-Werror")
    pool = Pool(installed, tmp_path, f"flash:{small_disk}/log")
    try:
        pool.start()
        for size in (100_000, 1_000_000, 4_000):
            filled = installed.run(program, pool.url, size, timeout=LIMIT_S)
            assert filled.returncode == 0, filled.stderr + pool.log()
            assert int(filled.stdout) * size >= 2_000_000
        assert "the file system is full" in pool.log()
        pool.stop(signal.SIGTERM)
        pool.start()
        listed = installed.must(installed.bin / "tanada", "pool", "ls", pool.url)
        assert listed.count("object") == 2, listed
    finally:
        pool.stop(signal.SIGKILL)
