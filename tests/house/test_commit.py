import subprocess

import check_commit
import pytest

BODY = "\n\nThe root waited for a reader that had returned.\n"


@pytest.mark.parametrize(
    "subject",
    [
        "comex: fix missed wake-up of a broadcast root waiting for its readers",
        "shmem: poll with relaxed loads in kernel waits, acquire once",
        "tests: cover read-around of adjacent pages",
        "o2g, pool: share the receive path",
        "src/core/wire: add a bound to names",
    ],
)
def test_a_good_message_passes(subject):
    assert check_commit.check_message(subject + BODY) == []


@pytest.mark.parametrize(
    "subject, what",
    [
        (
            "comex: fix a missed wake-up of a broadcast root that waits for its last readers",
            "columns",
        ),
        ("fix the wake-up", "module: verb what"),
        ("Comex: fix the wake-up", "module: verb what"),
        ("comex: who waits is woken by its readers", "not an imperative"),
        ("shmem: waits in kernels look relaxed", "not an imperative"),
        ("shmem: fixed the wait", "not an imperative"),
        ("shmem: Fix the wait", "not an imperative"),
        ("fixup! comex: fix the wait", "module: verb what"),
        ("port: fix the look-up; move the tests", "semicolon"),
        ("port: fix the look-up.", "full stop"),
        ("port: fix what the library tells its callers", "programs send"),
        ("comex: read pages for who waits", "without its subject"),
        ("comex: read pages of the set alone", 'write "only"'),
    ],
)
def test_a_planted_subject_is_refused(subject, what):
    problems = check_commit.check_message(subject + BODY)
    assert problems and any(what in each for each in problems), problems


@pytest.mark.parametrize(
    "rest, what",
    [
        ("\n", "there is no body"),
        ("\n\nSigned-off-by: A <a@b.c>\n", "there is no body"),
        ("\nThe body begins at once.\n\nIt goes on.\n", "second line"),
        (BODY + "word " * 16 + "\n", "columns"),
        (BODY + "\nWho waits is woken.\n", "without its subject"),
        (BODY + "\nSee #12.\n", "nothing to readers elsewhere"),
        (BODY + "\nSeen in /home/a/tree.\n", "nothing to readers elsewhere"),
    ],
)
def test_a_planted_body_is_refused(rest, what):
    problems = check_commit.check_message("comex: fix the wake-up" + rest)
    assert any(what in each for each in problems), problems


def test_quoted_lines_and_comments_of_git_are_not_judged():
    body = (
        BODY
        + "\n    "
        + "x" * 90
        + "\nhttps://example.org/"
        + "x" * 90
        + "\n# Who waits is woken.\n"
    )
    assert check_commit.check_message("comex: fix the wake-up" + body) == []


def test_a_range_is_checked_without_its_merges(tmp_path):
    def git(*words):
        identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for subject in ("first", "pool: add a lock", "pool: locks are fair"):
        git("commit", "-q", "--allow-empty", "-m", subject + BODY)
    git("checkout", "-q", "-b", "side", "HEAD~1")
    git("commit", "-q", "--allow-empty", "-m", "pool: add a test" + BODY)
    git("merge", "-q", "-m", "Merge main", "main")
    problems = check_commit.check_range(tmp_path, "main~2..HEAD")
    assert len(problems) == 1 and "'locks'" in problems[0]
    assert check_commit.check_range(tmp_path, "side^1~1..side^1") == []
    assert check_commit.check_range(tmp_path, "none..such") != []
