"""Programs that exchange messages over a cable, and a test that cuts it meanwhile."""

import concurrent.futures
import time


class Talk:
    """A context that waits until a program has exchanged messages. `launch(words)` runs it, with the files of progress and stop
    before the other words, and returns how it ended; `finish()` is that."""

    def __init__(self, launch, folder, patience_s, *options):
        self.progress, self.stop, self.patience_s = folder / "progress", folder / "stop", patience_s
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.run = self.pool.submit(launch, [str(self.progress), str(self.stop), *options])

    def __enter__(self):
        self.wait_beyond(0)
        return self

    def __exit__(self, *_):
        self.stop.touch()
        self.pool.shutdown()

    def round(self):
        text = self.progress.read_text() if self.progress.exists() else ""
        return int(text) if text.endswith("\n") else 0

    def wait_beyond(self, number):
        end = time.monotonic() + self.patience_s
        while self.round() <= number:
            assert not self.run.done(), self.run.result().output[-3000:]
            assert time.monotonic() < end, f"no more rounds than {number}"
            time.sleep(0.02)

    def finish(self):
        self.stop.touch()
        return self.run.result()

    def cut_for_a_while(self, cable):
        """The rounds stop while the cable is cut, and go on when it is mended."""
        cable.cut()
        time.sleep(0.5)  # what was under way has arrived
        before = self.round()
        time.sleep(1.5)
        assert self.round() == before, "the cut was none"
        cable.mend()
        self.wait_beyond(before + 10)
