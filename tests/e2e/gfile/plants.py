#!/usr/bin/env python3
"""Each check of gfile_stress finds the fault that is planted for it.

usage: plants.py GFILE_STRESS
"""

import os
import subprocess
import sys
import tempfile
import unittest

STRESS = None
# Other checks that may find a fault first.
ALSO = {
    "vanished": "a call failed"
}  # a missing file is detected by its owner, or by the first group that opens it


class Plants(unittest.TestCase):
    def run_with(self, *options):
        with tempfile.TemporaryDirectory(prefix="tanada-plants-") as folder:
            command = [
                STRESS,
                "--seed",
                "7",
                "--root",
                f"{folder}/",
                "--root",
                "mem://stress/",
                *options,
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    def test_each_is_found(self):
        listed = subprocess.run(
            [STRESS, "--plants"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        self.assertGreater(len(listed), 10)
        for line in listed:
            name, expected = line.split(": ")
            with self.subTest(name):
                status, output = self.run_with("--seconds", "15", "--plant", name)
                self.assertEqual(status, 1, output)
                kinds = f"({expected}|{ALSO.get(name, expected)})"
                self.assertRegex(output, f"^wrong in round [0-9]+: {kinds}: ")

    def test_where_nothing_is_planted_nothing_is_found(self):
        status, output = self.run_with("--seconds", "1")
        self.assertEqual(status, 0, output)
        self.assertIn("every word is right", output)


if __name__ == "__main__":
    STRESS = os.path.abspath(sys.argv.pop(1))
    unittest.main()
