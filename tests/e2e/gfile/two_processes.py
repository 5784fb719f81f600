#!/usr/bin/env python3
"""Two processes on one file keep close-to-open consistency: after one has closed the file, the
other's next open sees all of its data.

usage: two_processes.py PEER, the program gfile_peer. In each round one process writes a version
and closes the file. Then the other opens it, with the last version in its caches, and must read
the new one. Roles change from round to round.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROUNDS = 100
PEER = None


class Peer:
    def __init__(self):
        self.process = subprocess.Popen(
            [PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, verb, url, version):
        self.process.stdin.write(f"{verb} {url} {version}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        return self.process.wait(30)

    def stop(self):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()


class TwoProcesses(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tanada-peers-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.peers = [Peer(), Peer()]
        for peer in self.peers:
            self.addCleanup(peer.stop)

    def take_turns(self, url, before_write=lambda: None):
        for version in range(1, ROUNDS + 1):
            writer, reader = self.peers[version % 2], self.peers[1 - version % 2]
            before_write()
            self.assertEqual(writer.ask("write", url, version), "written", f"version {version}")
            self.assertEqual(reader.ask("read", url, version), "right", f"version {version}")
        self.assertEqual([peer.end() for peer in self.peers], [0, 0])

    def test_what_one_closed_the_other_opens(self):
        self.take_turns(f"file://{self.folder}/shared")

    def test_also_when_the_file_is_another_each_time(self):
        path = self.folder / "replaced"
        self.take_turns(f"file://{path}", lambda: path.unlink(missing_ok=True))

    def test_a_stale_version_would_be_seen(self):
        url = f"file://{self.folder}/planted"
        self.assertEqual(self.peers[0].ask("write", url, 1), "written")
        self.assertIn("words of another version", self.peers[1].ask("read", url, 2))


if __name__ == "__main__":
    PEER = os.path.abspath(sys.argv.pop(1))
    unittest.main()
