"""`tanada pool` against a real daemon: copies, lists, errors, keys."""

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import time

import pytest
from commands import BUILD, LIMIT_S, TANADA, Daemon, environment, pool, pool_json

NOTHING = "pool://127.0.0.1:1/runs"
BIG = 20_000_000  # bytes: more than the four chunks of a copy


@pytest.fixture
def space(daemon, request):
    """A namespace only for this test."""
    url = daemon.url(re.sub(r"\W", "-", request.node.name))
    yield url
    assert pool("rm", "-rf", url).returncode == 0


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "field"
    path.write_bytes(os.urandom(BIG))
    return path


def names(url):
    return [each["name"] for each in pool_json("ls", url)["objects"]]


def test_there_and_back(space, file, tmp_path):
    report = pool_json("cp", file, f"{space}/a/field")
    (copied,) = report["copied"]
    assert copied["size"] == BIG and copied["verified"] and copied["checksum_kind"] == "xxh3"
    back = tmp_path / "back"
    (copied_back,) = pool_json("cp", f"{space}/a/field", back)["copied"]
    assert back.read_bytes() == file.read_bytes()
    assert copied_back["verified"] and copied_back["checksum"] == copied["checksum"]
    (listed,) = pool_json("ls", space)["objects"]
    assert (
        listed["name"] == "a/field"
        and listed["size"] == BIG
        and listed["checksum"] == copied["checksum"]
    )
    assert pool_json("stat", f"{space}/a/field") == listed
    assert pool("cat", f"{space}/a/field", text=False).stdout == file.read_bytes()


def test_it_copies_over_the_socket_too(space, file, tmp_path):
    over_socket = {"TND_POOL_SHARED_MEMORY": "0"}
    assert pool("cp", file, f"{space}/field", variables=over_socket).returncode == 0
    assert pool("cp", f"{space}/field", tmp_path / "back", variables=over_socket).returncode == 0
    assert (tmp_path / "back").read_bytes() == file.read_bytes()
    link = pool_json("stat", space, variables=over_socket)["connection"]
    assert link["path"] in ("tcp", "unix") and link["reason"]
    assert pool_json("stat", space)["connection"]["path"] == "shared-memory"
    (used,) = pool_json("cp", f"{space}/field", tmp_path / "back", variables=over_socket)[
        "connections"
    ]
    assert used["path"] == link["path"] and used["received_size"] == BIG
    assert (
        set(used["traffic"]) == {link["path"]} and used["traffic"][link["path"]]["read_size"] == BIG
    )
    (copied,) = pool_json("cp", f"{space}/field", f"{space}/twin")["copied"]
    assert copied["read_path"] == copied["write_path"] == "shared-memory"
    (copied,) = pool_json("cp", file, f"{space}/other", variables=over_socket)["copied"]
    assert copied["read_path"] == "" and copied["write_path"] == link["path"]
    assert pool("cp", f"{space}/field", tmp_path / "back").stdout.endswith(", by shared-memory\n")
    # A copy of any size is written through an open object, not by one request as a put.
    (tmp_path / "small").write_bytes(b"1")
    (copied,) = pool_json("cp", tmp_path / "small", f"{space}/small")["copied"]
    assert copied["write_path"] == "shared-memory"


def test_namespaces_are_listed_and_own_memory(space, file):
    """By the URL of the pool; `stat` and `top` show the bytes that the namespace owns."""
    assert pool("cp", file, f"{space}/field").returncode == 0
    where, _, name = space.rpartition("/")
    for url in (where, f"{where}/"):
        listed = {each["name"]: each for each in pool_json("ls", url)["namespaces"]}
        assert listed[name]["object_count"] == 1 and listed[name]["used"] >= BIG
        assert listed[name]["owned"] >= listed[name]["used"]
    (line,) = [line for line in pool("ls", where).stdout.splitlines() if line.split()[-1] == name]
    assert line.startswith("1 object ") and " owned " in line
    owned = listed[name]["owned"]
    assert pool_json("stat", space)["statistics"]["namespace_owned"] == owned
    assert " owned, 1 object, quota " in pool("stat", space).stdout
    top = json.loads(pool("top", space, "--json", "--count", "1").stdout)
    assert top["namespace_owned"] == owned
    assert " owned, 1 object" in pool("top", space, "--count", "1").stdout


def test_one_level_is_listed(space, tmp_path):
    for name in ("a", "b/1", "b/2", "b/c/3"):
        assert pool("cp", "-", f"{space}/{name}", stdin="x").returncode == 0
    level = pool_json("ls", "-d", "/", space)
    assert [each["name"] for each in level["objects"]] == ["a"] and level["prefixes"] == ["b/"]
    lines = pool("ls", "--delimiter", "/", f"{space}/b/").stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["b/1", "b/2", "b/c/"]
    assert lines[-1].split() == ["PREFIX", "b/c/"]
    assert "prefixes" not in pool_json("ls", space)


def test_names_of_targets(space, file, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"1")
    assert pool("cp", file, other, space).returncode == 0
    assert pool("cp", file, f"{space}/p/").returncode == 0
    assert pool("cp", file, f"{space}/q").returncode == 0
    assert names(space) == ["field", "other", "p/field", "q"]
    folder = tmp_path / "folder"
    folder.mkdir()
    assert pool("cp", f"{space}/p/field", f"{space}/q", folder).returncode == 0
    assert sorted(each.name for each in folder.iterdir()) == ["field", "q"]


def test_folders_and_prefixes(space, tmp_path):
    tree = tmp_path / "tree"
    for name in ("a", "sub/b", "sub/deep/c"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name)
    assert pool("cp", tree, f"{space}/x").returncode == 1, "a folder needs -r"
    assert pool("cp", "-r", tree, f"{space}/x").returncode == 0
    assert names(space) == ["x/a", "x/sub/b", "x/sub/deep/c"]
    assert pool("cp", "-r", tree, space).returncode == 0
    assert names(f"{space}/tree") == ["tree/a", "tree/sub/b", "tree/sub/deep/c"]
    assert pool("cp", "-r", f"{space}/x", tmp_path / "back").returncode == 0
    assert (tmp_path / "back/sub/deep/c").read_text() == "sub/deep/c"
    assert pool("cp", "-r", f"{space}/x/sub", f"{space}/y").returncode == 0
    assert names(f"{space}/y") == ["y/b", "y/deep/c"]
    assert pool("cp", "-r", space, tmp_path / "all").returncode == 0
    assert (tmp_path / "all/tree/sub/b").read_text() == "sub/b"


def test_a_prefix_is_no_part_of_a_name(space, file):
    for name in ("run", "run/1", "run2"):
        assert pool("cp", file, f"{space}/{name}").returncode == 0
    assert pool_json("rm", "-r", f"{space}/run")["removed"] == [f"{space}/run", f"{space}/run/1"]
    assert names(space) == ["run2"]


def test_names_that_lead_out_of_the_target_are_left_out(space, tmp_path):
    for name in ("in/good", "in/../../bad", "in//bad", "in/./bad"):
        assert pool("cp", "-", f"{space}/{name}", stdin="x").returncode == 0
    report = pool_json("cp", "-r", f"{space}/in", tmp_path / "in", code=1)
    assert [each["target"] for each in report["copied"]] == [str(tmp_path / "in/good")]
    assert len(report["errors"]) == 3
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [tmp_path / "in/good"]


def test_from_namespace_to_namespace_and_daemon_to_daemon(space, file, tmp_path):
    second = Daemon(tmp_path).start()
    try:
        assert pool("cp", file, f"{space}/a").returncode == 0
        assert pool("cp", f"{space}/a", f"{space}-2/b").returncode == 0
        assert pool("cp", f"{space}-2/b", second.url("runs/c")).returncode == 0
        assert pool("cat", second.url("runs/c"), text=False).stdout == file.read_bytes()
    finally:
        second.stop()


def test_standard_input_and_output(space):
    assert pool("cp", "-", f"{space}/a", stdin="some words\n").returncode == 0
    assert pool("cp", f"{space}/a", "-").stdout == "some words\n"
    assert pool("cat", f"{space}/a", f"{space}/a").stdout == "some words\n" * 2
    assert json.loads(pool("cat", f"{space}/a", "--json").stdout) == {
        "url": f"{space}/a",
        "base64": "c29tZSB3b3Jkcwo=",
        "complete": True,
        "verified": True,
    }
    assert pool("cp", "-", f"{space}/empty", stdin="").returncode == 0
    assert pool("cat", f"{space}/empty").stdout == ""


def test_versions(space):
    for words in ("one", "two"):
        assert pool("cp", "-", f"{space}/a", stdin=words).returncode == 0
    newest = pool_json("stat", f"{space}/a")
    assert pool("cat", f"{space}/a").stdout == "two"
    assert pool("cat", f"{space}/a", "--version", newest["version"]).stdout == "two"
    assert pool("cat", f"{space}/a", "--version", newest["version"] + 1).returncode == 1


def test_what_exists_is_kept_where_that_is_wanted(space, file, tmp_path):
    assert pool("cp", "-", f"{space}/a", stdin="old").returncode == 0
    assert pool("cp", "-n", file, f"{space}/a").returncode == 1
    assert pool("cat", f"{space}/a").stdout == "old"
    target = tmp_path / "target"
    target.write_text("old")
    assert "EEXIST" in pool("cp", "-n", f"{space}/a", target).stderr
    assert pool("cp", "-n", f"{space}/a", tmp_path / "new").returncode == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["field", "new", "target"]


def test_a_file_that_is_replaced_keeps_its_mode_and_its_links(space, tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert pool("cp", "-", f"{space}/a", stdin="new").returncode == 0
    assert pool("cp", f"{space}/a", link).returncode == 0
    assert (
        link.is_symlink()
        and real.read_text() == "new"
        and stat.S_IMODE(real.stat().st_mode) == 0o640
    )
    assert pool("cp", f"{space}/a", "/dev/null").returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_move(space):
    for name in ("a", "b"):
        assert pool("cp", "-", f"{space}/{name}", stdin=name).returncode == 0
    assert pool_json("mv", f"{space}/a", f"{space}/c")["moved"] == [
        {"source": f"{space}/a", "target": f"{space}/c"}
    ]
    assert pool("mv", f"{space}/c", f"{space}/b", f"{space}/d/").returncode == 0
    assert names(space) == ["d/b", "d/c"] and pool("cat", f"{space}/d/c").stdout == "a"
    assert pool("mv", "-n", f"{space}/d/b", f"{space}/d/c").returncode == 1
    assert pool("cat", f"{space}/d/c").stdout == "a"
    assert "EXDEV" in pool("mv", f"{space}/d/b", f"{space}-other/b").stderr
    assert pool("mv", f"{space}/none", f"{space}/x").returncode == 1


def test_remove(space):
    assert pool("cp", "-", f"{space}/a", stdin="x").returncode == 0
    report = pool_json("rm", f"{space}/a", f"{space}/none", code=1)
    assert report["removed"] == [f"{space}/a"]
    assert [(each["what"], each["status"]) for each in report["errors"]] == [
        (f"{space}/none", "ENOENT")
    ]
    assert pool("rm", "-f", f"{space}/none").returncode == 0
    assert pool("rm", "-r", f"{space}/none").returncode == 1
    assert pool("rm", space).returncode == 2, "a whole namespace needs -r"


def test_flags(space):
    assert pool("cp", "--evictable", "-", f"{space}/a", stdin="x").returncode == 0
    assert pool("cp", "--pinned", "-", f"{space}/b", stdin="x").returncode == 0
    assert [each["flags"] for each in pool_json("ls", space)["objects"]] == [
        ["evictable"],
        ["pinned"],
    ]
    done = pool("cp", "--durable", "-", f"{space}/c", stdin="x")
    assert done.returncode == 1 and "EOPNOTSUPP" in done.stderr, "memory alone keeps nothing"
    assert names(space) == ["a", "b"]


def memory_of(daemon, content):
    """The only position in the daemon's memory files that holds the bytes, as an open file and an
    offset; None: not found.
    """
    for each in pathlib.Path(f"/proc/{daemon.process.pid}/fd").iterdir():
        try:
            if "memfd:" not in os.readlink(each):
                continue
            with open(each, "rb") as file:
                found = file.read().find(content)
            if found >= 0:
                os.chmod(each, 0o600)  # otherwise even the daemon's own user may only read it
                return open(each, "r+b"), found
        except FileNotFoundError:
            continue  # the daemon has closed it
    return None


def flip(daemon, content):
    memory, offset = memory_of(daemon, content)
    with memory:
        memory.seek(offset + 50)
        byte = memory.read(1)
        memory.seek(offset + 50)
        memory.write(bytes([byte[0] ^ 1]))


def test_bytes_that_rotted_in_the_pool_are_found(space, daemon, file, tmp_path):
    """The planted fault: one bit of the object, changed without the daemon's knowledge."""
    assert pool("cp", file, f"{space}/a").returncode == 0
    flip(daemon, file.read_bytes()[5_000_000:5_000_100])
    done = pool("cp", f"{space}/a", tmp_path / "back")
    assert done.returncode == 1 and "TND_ECORRUPT" in done.stderr
    assert not (tmp_path / "back").exists() and len(list(tmp_path.iterdir())) == 1
    assert "TND_ECORRUPT" in pool("cp", f"{space}/a", f"{space}/b").stderr and names(space) == ["a"]
    assert pool("cat", f"{space}/a", text=False).returncode == 1
    assert json.loads(pool("cat", "--json", f"{space}/a").stdout)["complete"] is False


def test_bytes_that_change_before_the_commit_are_not_committed(space, daemon, tmp_path):
    """The planted fault: the same, while the copy still waits for the rest of its source."""
    source = tmp_path / "source"
    os.mkfifo(source)
    copying = subprocess.Popen(
        [TANADA, "pool", "cp", source, f"{space}/a"],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    first = os.urandom(100_000)
    with open(source, "wb", buffering=0) as feed:
        feed.write(first)
        deadline = time.monotonic() + LIMIT_S
        while (found := memory_of(daemon, first[-100:])) is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        found[0].close()
        flip(daemon, first[:100])
    assert "TND_ECORRUPT" in copying.communicate(timeout=LIMIT_S)[1] and copying.returncode == 1
    assert names(space) == []


def test_a_copy_that_does_not_fit_leaves_nothing(space, tmp_path):
    big = tmp_path / "big"
    with open(big, "wb") as made:
        made.truncate(1 << 30)
    before = pool_json("stat", space)["statistics"]["used"]
    done = pool("cp", big, f"{space}/a")
    assert done.returncode == 1 and "ENOSPC" in done.stderr
    assert names(space) == [] and pool_json("stat", space)["statistics"]["used"] == before
    assert pool("cp", "/proc/self/mem", f"{space}/a").returncode == 1
    assert names(space) == []


def test_one_that_fails_does_not_keep_the_others(space, file, tmp_path):
    report = pool_json("cp", tmp_path / "none", file, f"{space}/", code=1)
    assert [each["target"] for each in report["copied"]] == [f"{space}/field"]
    assert [(each["what"], each["status"]) for each in report["errors"]] == [
        (str(tmp_path / "none"), "ENOENT")
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["ls"],
        ["ls", "runs"],
        ["ls", "pool://"],
        ["ls", "pool://host:99999/runs"],
        ["stat", "/etc/passwd"],
        ["cp", "one"],
        ["cp", "a", "b"],
        ["cp", "gfarm:///a", "pool://h/n/a"],
        ["cat", "pool://127.0.0.1/runs"],
        ["nothing"],
        [],
        ["mv", "pool://h/n/a", "file"],
        ["top", "x"],
        ["bench", "pool://h/n", "--sizes", "many"],
        ["key", "new"],
        ["key", "new", "--namespaces", "a b"],
        ["key", "new", "--namespaces", "a,,b"],
        ["key", "new", "--namespaces", "a/b"],
        ["cp", "-r", "pool://h/n/a", "-"],
        ["ls", "pool://h/n", "--timeout", "0"],
        ["ls", "pool://h/n", "--timeout", "4x"],
        ["ls", "pool://h/n", "--timeout", "0ms"],
    ],
)
def test_wrong_command_lines(words):
    done = pool(*words)
    assert done.returncode == 2 and done.stderr.strip() and "terminate" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["ls", NOTHING],
        ["stat", f"{NOTHING}/a"],
        ["cat", f"{NOTHING}/a"],
        ["rm", f"{NOTHING}/a"],
        ["top", NOTHING],
        ["bench", NOTHING],
        ["cp", f"{NOTHING}/a", "/nowhere/x"],
        ["mv", f"{NOTHING}/a", f"{NOTHING}/b"],
        ["cp", "/etc/hostname", f"{NOTHING}/a"],
    ],
)
def test_nobody_answers(words):
    done = pool(*words, "--timeout", "2")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"tanada: {NOTHING}") and "TND_EPEER" in line


@pytest.mark.parametrize("timeout", ["2", "2s", "500ms", "0.1min"])
def test_a_timeout_may_have_a_unit(space, timeout):
    assert pool("ls", space, "--timeout", timeout).returncode == 0


def test_a_key_file_that_cannot_be_opened_is_named_with_the_reason(tmp_path):
    done = pool("ls", NOTHING, "--key-file", tmp_path / "missing")
    assert "missing: No such file or directory (ENOENT)" in done.stderr
    (tmp_path / "file").touch()
    done = pool("ls", NOTHING, "--key-file", tmp_path / "file/key")
    assert "key: Not a directory" in done.stderr and "ENOTDIR" in done.stderr


def test_an_error_in_json(space):
    report = pool_json("stat", f"{space}/none", code=1)
    assert (
        report["errors"][0]["what"] == f"{space}/none" and report["errors"][0]["status"] == "ENOENT"
    )


def test_bench(space):
    report = pool_json("bench", space, "--sizes", "1KiB,1MiB", "--seconds", "0.1")
    assert [each["size"] for each in report["results"]] == [1024, 1 << 20]
    assert report["connections"][0]["path"] == "shared-memory"
    traffic = report["connections"][0]["traffic"]
    small, large = report["results"]
    assert (small["put"]["path"], large["put"]["path"]) == ("unix", "shared-memory"), (
        "64 KiB go with the request"
    )
    assert small["get"]["path"] == large["get"]["path"] == "shared-memory"
    # The first measurement of each does not count.
    assert traffic["unix"]["writes"] == small["put"]["count"] + 1 and traffic["unix"]["reads"] == 0
    assert traffic["shared-memory"]["reads"] == small["get"]["count"] + large["get"]["count"] + 2
    statistics = pool_json("stat", space)["statistics"]
    assert statistics["read_size"] >= traffic["shared-memory"]["read_size"], (
        "the daemon knows what was read by mapping"
    )
    for each in report["results"]:
        for way in ("put", "get"):
            assert each[way]["count"] >= 3 and 0 < each[way]["p50_ns"] <= each[way]["p99_ns"]
            assert each[way]["bytes_per_second"] == pytest.approx(
                each["size"] * each[way]["count"] / each[way]["seconds"]
            )
    assert names(space) == []
    shown = pool("bench", space, "--sizes", "4KiB", "--seconds", "0.05").stdout.splitlines()
    assert [line.split()[2] for line in shown] == ["put", "get"]


def test_keys(tmp_path):
    """The output of `key new` works for the daemon and for the client, and only for the given
    rights.
    """
    lines = {}
    for name, words in {
        "writer": ["--namespaces", "runs,logs"],
        "reader": ["--namespaces", "runs", "--read-only"],
    }.items():
        path = tmp_path / name
        assert pool("key", "new", "--id", name, "--output", path, *words).returncode == 0
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert pool("key", "new", "--namespaces", "x", "--output", path).returncode == 1, (
            "it is there already"
        )
        lines[name] = path.read_text()
    assert re.fullmatch(r"writer [0-9a-f]{64} rw runs,logs\n", lines["writer"])
    assert re.fullmatch(r"reader [0-9a-f]{64} ro runs\n", lines["reader"])
    printed = pool("key", "new", "--namespaces", "*")
    assert re.fullmatch(r"key-[0-9a-f]{8} [0-9a-f]{64} rw \*\n", printed.stdout)
    assert pool_json("key", "new", "--namespaces", "*")["line"] != printed.stdout.strip()
    known = tmp_path / "known"
    known.write_text("".join(lines.values()))
    known.chmod(0o600)
    daemon = Daemon(tmp_path, "--key-file", known).start()
    try:
        runs = daemon.url("runs")
        assert (
            pool("cp", "-", f"{runs}/a", "--key-file", tmp_path / "writer", stdin="x").returncode
            == 0
        )
        assert pool("cat", f"{runs}/a", "--key-file", tmp_path / "reader").stdout == "x"
        assert (
            pool(
                "cat", f"{runs}/a", variables={"TND_POOL_KEY_FILE": str(tmp_path / "reader")}
            ).stdout
            == "x"
        )
        assert "EACCES" in pool("rm", f"{runs}/a", "--key-file", tmp_path / "reader").stderr
        assert "EACCES" in pool("ls", daemon.url("logs"), "--key-file", tmp_path / "reader").stderr
        assert pool("ls", runs).returncode == 1, "no key"
        forged = tmp_path / "forged"
        forged.write_text(lines["writer"].replace(lines["writer"].split()[1], "0" * 64))
        forged.chmod(0o600)
        assert "EACCES" in pool("ls", runs, "--key-file", forged).stderr
        forged.chmod(0o644)
        assert pool("ls", runs, "--key-file", forged).returncode == 1
    finally:
        daemon.stop()


def test_serve_becomes_the_daemon(tmp_path):
    assert pool("serve", "--version").stdout.startswith("tanada-poold ")
    text = pool("serve", "--help").stdout
    assert "--backing" in text and "=1GiB" in text and "=64MiB" in text
    alone = tmp_path / "tanada"
    shutil.copy(TANADA, alone)
    by_path = {"PATH": f"{BUILD / 'bin'}:/usr/bin:/bin"}
    done = subprocess.run(
        [alone, "pool", "serve", "--version"],
        env=environment(**by_path),
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("tanada-poold ")
    done = subprocess.run(
        [alone, "pool", "serve"], env=environment(PATH="/nowhere"), capture_output=True, text=True
    )
    assert done.returncode == 1 and str(tmp_path / "tanada-poold") in done.stderr
