"""`tanada comex top` on a job that swaps: while it runs, while it is stopped, and after it."""

import json
import os
import signal
import subprocess
import threading
import time

import comex_jobs
import pytest

TOP = comex_jobs.BUILD / "bin/tanada"


@pytest.mark.skipif(not TOP.exists(), reason="the command is not built")
def test_a_job_is_seen_until_it_ends(jobs, tmp_path):
    runtime, told = tmp_path / "runtime", tmp_path / "told"
    runtime.mkdir(mode=0o700)
    settings = {
        "XDG_RUNTIME_DIR": str(runtime),
        "TND_COMEX_MEMORY": "64M",
        "TND_COMEX_SWAP": f"file://{tmp_path}",
    }
    jobs.build("until_told")
    ended = []
    job = threading.Thread(
        target=lambda: ended.append(jobs.run("until_told", 3, [told], settings=settings))
    )

    def top():
        return subprocess.run(
            [TOP, "comex", "top", "--json", "--count", "1"],
            env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
            capture_output=True,
            text=True,
            timeout=30,
        )

    def seen_until(condition, limit_s=60):
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            asked = top()
            if asked.returncode == 0 and condition(now := json.loads(asked.stdout)):
                return now
            time.sleep(0.05)
        raise AssertionError(f"never seen: {asked}")

    job.start()
    try:
        now = seen_until(
            lambda now: (
                len(now["ranks"]) == 3
                and all(each["allocated"] >= 1 << 20 for each in now["ranks"])
            )
        )
        assert now["budget"] == 64 << 20 and {each["process"] for each in now["ranks"]} >= {
            now["process"]
        }
        assert seen_until(lambda later: later["time"] > now["time"])["process"] == now["process"]
        os.kill(now["process"], signal.SIGSTOP)
        try:
            stopped = top()
            assert (
                stopped.returncode == 0 and json.loads(stopped.stdout)["process"] == now["process"]
            ), stopped
        finally:
            os.kill(now["process"], signal.SIGCONT)
    finally:
        told.touch()
        job.join()
    comex_jobs.require_passed(ended[0])
    assert top().returncode == 1 and list(runtime.iterdir()) == []
