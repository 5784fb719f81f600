"""Performance of the disk under a folder for fio, and for the kernel's swap to a file there."""

import json
import pathlib
import shutil
import subprocess


class Refused(Exception):
    """The measurement is impossible here; the message has the reason."""


def call(*words, limit_s=120):
    try:
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            timeout=limit_s,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{words[0]}: {error}") from None
    if done.returncode != 0:
        raise Refused(f"{words[0]}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def fio(folder, kind, size, seconds=5):
    """Bytes a second: sequential, direct, blocks of 4 MiB, eight in flight.

    `kind` is "read", "write" or "rw", half of each.
    """
    if not shutil.which("fio"):
        raise Refused("there is no fio: apt-get install fio")
    file = pathlib.Path(folder) / "tnd-bench-fio"
    try:
        output = call(
            "fio",
            "--name=sequential",
            f"--filename={file}",
            f"--rw={kind}",
            f"--size={size}",
            "--bs=4M",
            "--iodepth=8",
            "--ioengine=libaio",
            "--direct=1",
            "--time_based",
            f"--runtime={seconds}",
            "--output-format=json",
            "--fallocate=none",
        )
    finally:
        file.unlink(missing_ok=True)
    job = json.loads(output[output.index("{") :])["jobs"][0]
    return float(job["read"]["bw_bytes"] + job["write"]["bw_bytes"])


class SwapFile:
    """A context in which the kernel swaps to a file in the folder."""

    def __init__(self, folder, size):
        self.file, self.size = pathlib.Path(folder) / "tnd-bench-swapfile", size

    def __enter__(self):
        try:
            with open(self.file, "wb") as file:
                self.file.chmod(0o600)
                # The kernel refuses a sparse file.
                file.writelines(bytes(16 << 20) for _ in range(0, self.size, 16 << 20))
            call("mkswap", self.file)
            call("swapon", self.file)
        except (OSError, Refused) as error:
            self.file.unlink(missing_ok=True)
            raise Refused(f"no swap file: {error}") from None
        return self

    def __exit__(self, *_):
        call("swapoff", self.file)
        self.file.unlink()
