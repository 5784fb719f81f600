"""The daemon as an operator runs it: settings in a file, the unit that is installed, new keys and quotas without a restart."""

import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

LIMIT_S = 120  # on a busy machine
ORDINARY_ID = 65534  # nobody's


@pytest.fixture
def folder():
    """A folder that an ordinary user, who owns it, can reach."""
    with tempfile.TemporaryDirectory(prefix="tnd service ") as name:
        if os.geteuid() == 0:
            os.chown(name, ORDINARY_ID, ORDINARY_ID)
        yield pathlib.Path(name)


def give(path):
    """To the user that the daemon runs as, and nobody else."""
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, ORDINARY_ID, ORDINARY_ID)
    return path


def as_ordinary_user():
    return (
        {"user": ORDINARY_ID, "group": ORDINARY_ID, "extra_groups": []} if os.geteuid() == 0 else {}
    )


class Service:
    def __init__(self, process, folder, port):
        self.process, self.folder, self.port = process, folder, port

    def log(self):
        return (self.folder / "log").read_text()

    def reload(self, line):
        """SIGHUP, and then this line in the log once more than before."""
        before = self.log().count(line)
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + LIMIT_S
        while self.log().count(line) == before:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.02)


@contextlib.contextmanager
def running(installed, folder, program, config):
    """The program with `--config=CONFIG`, as an ordinary user. It takes a free port."""
    (folder / "port").unlink(missing_ok=True)
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [program, f"--config={config}", "--port-file", folder / "port"],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=installed.environment(),
            **as_ordinary_user(),
        )
    try:
        deadline = time.monotonic() + LIMIT_S
        while not (folder / "port").exists():
            assert process.poll() is None and time.monotonic() < deadline, (
                folder / "log"
            ).read_text()
            time.sleep(0.02)
        yield Service(process, folder, int((folder / "port").read_text()))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0, (folder / "log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def new_key(installed, folder, name):
    """A client's key file."""
    line = installed.must("tanada", "pool", "key", "new", "--id", name, "--namespaces", "runs")
    path = folder / name
    path.write_text(line)
    path.chmod(0o600)
    return path


def write_settings(folder, **more):
    lines = {"listen": "127.0.0.1", "port": 0, "size": "64MiB", "segment_size": "2MiB", **more}
    quotas = lines.pop("quotas", None)
    text = "".join(
        f"{name} = {value if isinstance(value, int) else chr(34) + str(value) + chr(34)}\n"
        for name, value in lines.items()
    )
    if quotas:
        text += f'[quotas]\nruns = "{quotas}"\n'
    (folder / "poold.toml").write_text(text)
    return folder / "poold.toml"


def put(installed, service, key, name, size=1000):
    command = [
        "tanada",
        "pool",
        "cp",
        "--key-file",
        key,
        "-",
        f"pool://127.0.0.1:{service.port}/runs/{name}",
    ]
    return installed.run(*command, input="x" * size, stdin=None)


def names(installed, service, key):
    return installed.must(
        "tanada", "pool", "ls", "--key-file", key, f"pool://127.0.0.1:{service.port}/runs"
    )


def test_settings_by_an_equals_sign_are_read(installed, folder):
    config = write_settings(folder, size="12MiB")
    with running(installed, folder, installed.bin / "tanada-poold", config) as service:
        assert "12MiB" in service.log() and service.port != 7440


@pytest.mark.parametrize(
    "text, message",
    [
        ('segmentsize = "1MiB"\n', "the nearest is segment_size"),
        ('[quota]\nruns = "1GiB"\n', "there is no such setting"),
        ('size = "much"\n', "a size, such as 64GiB"),
        ("web = 3\n", "true or false"),
        ("[quotas]\nruns = 1.5\n", "a size"),
    ],
)
def test_a_setting_that_is_not_understood_ends_the_start(installed, tmp_path, text, message):
    (tmp_path / "poold.toml").write_text(text)
    done = installed.run(
        "tanada-poold", f"--config={tmp_path / 'poold.toml'}", "--port", "0", timeout=LIMIT_S
    )
    assert done.returncode != 0 and message in done.stderr, done.stderr


def test_new_keys_and_quotas_need_no_restart(installed, folder):
    alice, bob = new_key(installed, folder, "alice"), new_key(installed, folder, "bob")
    keys = folder / "keys"
    keys.write_text(alice.read_text())
    config = write_settings(folder, key_file=give(keys))
    with running(installed, folder, installed.bin / "tanada-poold", config) as service:
        assert put(installed, service, alice, "a").returncode == 0
        assert put(installed, service, bob, "b").returncode != 0

        keys.write_text(alice.read_text() + bob.read_text())
        write_settings(folder, key_file=keys, quotas="4MiB")
        service.reload("settings were reloaded")
        assert put(installed, service, bob, "b").returncode == 0
        refused = put(installed, service, alice, "too-large", size=5_000_000)
        assert refused.returncode != 0 and "quota" in refused.stderr, refused.stderr
        assert "a\n" in names(installed, service, bob)  # what was there has stayed

        keys.write_text("no key at all\n")
        service.reload("settings were not reloaded")
        assert "line 1" in service.log()
        assert "b\n" in names(installed, service, alice)

        keys.write_text(bob.read_text())
        config.write_text("size = much\n")
        service.reload("settings were not reloaded")
        assert "a\n" in names(installed, service, alice)  # not one of the two files

        write_settings(folder, key_file=keys)
        service.reload("settings were reloaded")
        assert put(installed, service, alice, "c").returncode != 0
        assert (
            put(installed, service, bob, "c", size=5_000_000).returncode == 0
        )  # the quota has gone, too


def unit_lines(installed):
    text = (installed.path / "lib/systemd/system/tanada-poold.service").read_text()
    return dict(
        line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#")
    )


def test_the_unit_is_one_that_systemd_takes(installed):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = installed.run(
        "systemd-analyze", "verify", installed.path / "lib/systemd/system/tanada-poold.service"
    )
    of_ours = [line for line in (done.stdout + done.stderr).splitlines() if "tanada" in line]
    assert of_ours == [], done


def test_the_unit_runs_with_its_own_user_files_and_rights(installed, folder):
    unit = unit_lines(installed)
    users = (installed.path / "lib/sysusers.d/tanada-poold.conf").read_text()
    assert f"\nu {unit['User']} " in users and "DynamicUser" not in unit
    assert (
        unit["StateDirectory"] == "tanada-poold" and unit["ExecReload"] == "/bin/kill -HUP $MAINPID"
    )
    program, option, settings = shlex.split(unit["ExecStart"])
    assert (
        option == "--config" and pathlib.Path(settings) == installed.path / "etc/tanada/poold.toml"
    )
    # What the state folder and the key file are on a node: the daemon's own, closed to others.
    state = folder / "state"
    state.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(state, ORDINARY_ID, ORDINARY_ID)
    alice = new_key(installed, folder, "alice")
    (folder / "keys").write_text(alice.read_text())
    config = write_settings(
        folder, key_file=give(folder / "keys"), backing=f"flash:{state / 'log'}"
    )
    with running(installed, folder, program, config) as service:
        assert put(installed, service, alice, "a").returncode == 0
    with running(installed, folder, program, config) as service:
        assert "a\n" in names(installed, service, alice)
