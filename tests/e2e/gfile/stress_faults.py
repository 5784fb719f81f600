#!/usr/bin/env python3
"""Random operations while the store fails: data that gfsync and gclose acknowledged are in the
files, and no call takes longer than its limit.

usage: stress_faults.py local|gfarm GFILE_STRESS. `gfarm` runs beside fixtures/gfarm.py and kills
and stops its gfsds.
"""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SECONDS = 6
STRESS = None


def stress(root, seed, prepare=None, seconds=SECONDS, errors_allowed=1, last_look=1):
    """A started gfile_stress on `root`, whose calls may fail."""
    command = [
        STRESS,
        "--seconds",
        str(seconds),
        "--seed",
        str(seed),
        "--errors-allowed",
        str(errors_allowed),
        "--files",
        "12",
        "--last-look",
        str(last_look),
        "--root",
        root,
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=prepare
    )


class Faults(unittest.TestCase):
    def finish(self, process, limit_s=90):
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail("it hangs")
        self.assertEqual(process.returncode, 0, output[-2000:])
        self.assertIn("every word is right", output)
        return output


class Local(Faults):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tanada-stress-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    @unittest.skipIf(os.geteuid() != 0, "mounting a small tmpfs needs root")
    def test_a_full_disk(self):
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=160k", "tanada", str(self.folder)],
            capture_output=True,
            text=True,
        )
        if mounted.returncode != 0:
            self.skipTest("mount: " + mounted.stderr.strip())
        try:
            output = self.finish(stress(f"{self.folder}/", 3))
        finally:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)
        self.assertIn("ENOSPC", output, "the disk was never full")

    def test_a_limit_of_the_size_of_files(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

        output = self.finish(stress(f"{self.folder}/", 4, limit))
        self.assertIn("EFBIG", output, "no file met the limit")


class Gfarm(Faults):
    def setUp(self):
        self.servers = [int(pid) for pid in os.environ["TND_TEST_GFSD_PIDS"].split(",")]

    def expect_failures(self, output):
        self.assertNotIn("of which 0 failed", output, "no call noticed")

    # The first files of a process are opened by two instances together.
    def test_0_all_is_well_without_a_fault(self):
        for seed in range(4):
            self.finish(stress("gfarm:///stress-", seed, seconds=0.5, errors_allowed=0))

    def test_1_servers_that_stop_for_a_while(self):
        process = stress("gfarm:///stress-", 5)
        for server in self.servers:
            time.sleep(1)
            os.killpg(server, signal.SIGSTOP)
            time.sleep(1.5)
            os.killpg(server, signal.SIGCONT)
        self.expect_failures(self.finish(process))

    def test_2_a_server_that_is_killed(self):
        process = stress("gfarm:///stress-", 6, last_look=0)  # its content is lost
        time.sleep(3)
        os.killpg(self.servers[-1], signal.SIGKILL)
        self.finish(process)


if __name__ == "__main__":
    where, STRESS = sys.argv[1], sys.argv[2]
    unittest.main(
        argv=[sys.argv[0], Local.__name__ if where == "local" else Gfarm.__name__], verbosity=2
    )
