"""gfile in a process that is killed, stalled or left without a plugin. Arguments: GROUP VICTIM
LIBRARY [PLUGIN], where GROUP is local or gfarm, VICTIM the program gfile_victim, and the others
the paths of libtanada.so, by the name that programs load, and the plugin.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "fixtures"))
import gfarm

LIMIT_S = 15
GROUP, VICTIM, LIBRARY, PLUGIN = (sys.argv[1:] + [None] * 4)[:4]


class Victims(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tanada-victim-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("temporary", "store", "pages"):
            (self.folder / name).mkdir(mode=0o700)
        self.own = {
            "TMPDIR": str(self.folder / "temporary"),
            "XDG_RUNTIME_DIR": str(self.folder / "pages"),
        }
        self.environment = {**os.environ, **self.own}

    def start(self, *words):
        victim = subprocess.Popen(
            [VICTIM, *map(str, words)],
            cwd=self.folder / "temporary",
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(victim.communicate)
        self.addCleanup(victim.kill)
        return victim

    def run_victim(self, *words):
        return subprocess.run(
            [VICTIM, *map(str, words)],
            cwd=self.folder / "temporary",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def pass_check(self, url):
        done = self.run_victim("check", url)
        self.assertEqual((done.returncode, done.stdout), (0, "right\n"), done.stderr)

    def open_names(self, pid):
        """What a process has open by name: files, devices, named sockets."""
        targets = set()
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            targets.add(os.readlink(entry))
        inodes = {target[8:-1] for target in targets if target.startswith("socket:[")}
        named = {
            line.split()[7]
            for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]
            if line.split()[6] in inodes and len(line.split()) > 7
        }
        pages = str(self.folder / "pages")  # of counters, one for each process
        return named | {
            target for target in targets if target.startswith("/") and not target.startswith(pages)
        }

    def kill_while_it_writes(self, url, own):
        victim = self.start("write", url)
        self.assertEqual(victim.stdout.readline(), "writing\n")
        self.assertLessEqual(self.open_names(victim.pid), own)
        victim.kill()
        self.assertEqual(victim.wait(LIMIT_S), -signal.SIGKILL)
        self.assertEqual(list((self.folder / "temporary").iterdir()), [])
        self.pass_check(url)
        self.assertEqual(list((self.folder / "temporary").iterdir()), [])
        # Of pages of counters only the dead process's remains, until another instance starts some
        # seconds later.
        left = [path.name for path in (self.folder / "pages").rglob("*") if path.is_file()]
        self.assertEqual([name for name in left if not name.startswith(f"{victim.pid}-")], [])


class Local(Victims):
    def test_killed_while_it_writes_a_file_it_leaves_only_that(self):
        file = self.folder / "store" / "file"
        self.kill_while_it_writes(f"file://{file}", {str(file)})
        self.assertEqual(list((self.folder / "store").iterdir()), [file])

    def test_a_missing_plugin_is_a_status_and_a_line_that_names_the_package(self):
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(LIBRARY, alone)
        self.environment["LD_LIBRARY_PATH"] = str(alone)
        self.environment["TND_PLUGIN_PATH"] = str(self.folder / "store")  # empty
        done = self.run_victim("open", "gfarm:///file")
        self.assertEqual((done.returncode, done.stdout), (0, "TND_ENOPLUGIN\n"), done.stderr)
        self.assertIn("libgfarm1", done.stderr)
        self.assertEqual(self.run_victim("open", self.folder / "none").stdout, "ENOENT\n")
        self.pass_check(self.folder / "store" / "file")


class Gfarm(Victims):
    @classmethod
    def setUpClass(cls):
        cls.up = cls.enterClassContext(gfarm.cluster(remote=True))

    def setUp(self):
        super().setUp()
        self.environment = {
            **self.up.environment,
            **self.own,
            "TND_PLUGIN_PATH": os.path.dirname(PLUGIN),
        }

    def test_killed_while_it_writes_another_run_works(self):
        self.kill_while_it_writes("gfarm:///killed", set())

    def test_gfinalize_with_a_kernel_that_waits_for_a_stalled_store_ends_and_so_does_the_process(
        self,
    ):
        self.pass_check("gfarm:///stalled")
        victim = self.start("stall", "gfarm:///stalled")
        self.assertEqual(victim.stdout.readline(), "reading\n")
        for pid in self.up.gfsd_pids:
            os.killpg(pid, signal.SIGSTOP)
        try:
            out, err = victim.communicate("\n", LIMIT_S)
        finally:
            for pid in self.up.gfsd_pids:
                os.killpg(pid, signal.SIGCONT)
        self.assertEqual(victim.returncode, 0, err)
        status, seconds = out.split()
        self.assertEqual(status, "ETIMEDOUT", err)
        self.assertLess(float(seconds), 2 + 1)  # its timeout and a little more


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], {"local": "Local", "gfarm": "Gfarm"}[GROUP], "-v"])
