"""A pool in one network namespace for programs in another, connected by a virtual link."""

import contextlib
import pathlib
import secrets
import subprocess
import time

import link

START_LIMIT_S = 30


class FarPool:
    """The URL, settings to open the pool, and a way to run commands at the other end of the link."""

    def __init__(self, url, key_file, name):
        self.url, self.settings, self.name = url, {"TND_POOL_KEY_FILE": str(key_file)}, name

    def command(self, words):
        return ["ip", "netns", "exec", self.name, *map(str, words)]


@contextlib.contextmanager
def far_pool(poold, size, folder, megabits=None):
    """A FarPool of `size` bytes with the namespace swap. RuntimeError if it cannot be created.

    `megabits`: the rate of the link a second, None for no limit.
    """
    if not pathlib.Path(poold).exists():
        raise RuntimeError(f"missing: no {poold}")
    if reason := link.missing():
        raise RuntimeError(reason)
    folder = pathlib.Path(folder)
    keys, port_file, log = folder / "keys", folder / "pool_port", folder / "pool_log"
    keys.write_text(f"bench {secrets.token_hex(32)} rw swap\n")
    keys.chmod(0o600)
    port_file.unlink(missing_ok=True)
    with link.Link(megabits=megabits) as two, open(log, "w") as log_file:
        command = [
            "ip",
            "netns",
            "exec",
            two.names[0],
            str(poold),
            "--listen",
            two.hosts[0],
            "--port",
            "0",
            "--port-file",
            str(port_file),
            "--key-file",
            str(keys),
            "--size",
            str(size),
            "--no-prefault",
        ]
        with subprocess.Popen(
            command, stdout=log_file, stderr=log_file, stdin=subprocess.DEVNULL
        ) as daemon:
            try:
                end = time.monotonic() + START_LIMIT_S
                while not port_file.exists() or not port_file.read_text():
                    if daemon.poll() is not None or time.monotonic() > end:
                        raise RuntimeError(f"no pool: {log.read_text()[-300:]}")
                    time.sleep(0.05)
                yield FarPool(
                    f"pool://{two.hosts[0]}:{port_file.read_text().split()[0]}/swap",
                    keys,
                    two.names[1],
                )
            finally:
                daemon.terminate()
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    daemon.kill()
