"""A headless Chromium, driven over its DevTools pipe (--remote-debugging-pipe: JSON messages, each
ended by 0).
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time

LIMIT_S = 120  # for a whole start on a busy machine


def find():
    return (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )


class Browser:
    """One page. `problems` collects errors, exceptions and blocked requests from its console."""

    def __init__(self, profile):
        self.problems = []
        self.last_id = 0
        self.rest = b""
        commands_read, self.commands = os.pipe()
        self.answers, answers_write = os.pipe()
        # Chromium reads descriptor 3 and writes 4. No sandbox for root, who cannot use a user
        # namespace.
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--window-size=1120,900",
            f"--user-data-dir={profile}",
            *(["--no-sandbox"] if os.getuid() == 0 else []),
        ]
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{commands_read} 4>&{answers_write}',
                "bash",
                find(),
                *options,
                "about:blank",
            ],
            pass_fds=(commands_read, answers_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_read)
        os.close(answers_write)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        os.close(self.commands)
        os.close(self.answers)

    def message(self, deadline):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], max(0, deadline - time.monotonic()))
            part = os.read(self.answers, 1 << 16) if ready else b""
            if not part:
                raise TimeoutError("Chromium does not answer")
            self.rest += part
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self.last_id += 1
        command = {"id": self.last_id, "method": method, "params": parameters}
        if hasattr(self, "session") and not method.startswith("Target."):
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self.message(deadline)
            if answer.get("id") == self.last_id:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.note(answer)

    def note(self, event):
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(event["params"]["exceptionDetails"])
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.problems.append(event["params"]["entry"])

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression, limit_s=30):
        """Waits until the expression is true; returns its value."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError(f"never true: {expression}")

    def open(self, url):
        """`problems` are only of this page: the previous one may still request from a server that
        has ended.
        """
        self.call("Page.navigate", url="about:blank")
        self.wait("document.readyState === 'complete' && location.href === 'about:blank'")
        self.problems.clear()
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def screenshot(self, path):
        path.write_bytes(
            base64.b64decode(
                self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)[
                    "data"
                ]
            )
        )
