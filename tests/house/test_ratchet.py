import pytest
import ratchet

FINDINGS = [("a.cc", 3, "name", "what"), ("a.cc", 7, "name", "of"), ("b.cc", 1, "name", "at")]


@pytest.fixture
def count_list(tmp_path):
    def write(*lines):
        path = tmp_path / "list.txt"
        path.write_text("\n".join(["# A list.", *lines]) + "\n")
        return path

    return write


def test_as_many_findings_as_listed_pass(count_list):
    listed = ratchet.read(count_list("a.cc name: 2", "b.cc name: 1"))
    assert list(ratchet.rises(FINDINGS, listed)) == []
    assert list(ratchet.falls(FINDINGS, listed, "list.txt")) == []


def test_one_more_finding_fails_and_all_of_the_file_are_shown(count_list):
    listed = ratchet.read(count_list("a.cc name: 1", "b.cc name: 1"))
    assert [line.partition(" ")[0] for line in ratchet.rises(FINDINGS, listed)] == [
        "a.cc:3:",
        "a.cc:7:",
    ]


def test_a_finding_in_a_file_that_is_not_listed_fails(count_list):
    listed = ratchet.read(count_list("a.cc name: 2"))
    assert list(ratchet.rises(FINDINGS, listed)) == ["b.cc:1: name: at"]


def test_a_count_that_could_be_lower_is_reported(count_list):
    listed = ratchet.read(count_list("a.cc name: 2", "b.cc name: 1", "gone.cc name: 4"))
    assert list(ratchet.falls(FINDINGS, listed, "list.txt")) == [
        "list.txt: gone.cc name: 0 now: lower it with --lower"
    ]


def test_lowering_follows_a_renamed_file_and_keeps_the_head(count_list):
    path = count_list("old.cc name: 3")
    assert ratchet.lower(path, FINDINGS) == []
    assert path.read_text() == "# A list.\na.cc name: 2\nb.cc name: 1\n"


def test_lowering_never_allows_more_in_all(count_list):
    path = count_list("a.cc name: 2")
    before = path.read_text()
    assert ratchet.lower(path, FINDINGS) == ["list.txt: name: 3 in all, 2 are listed"]
    assert path.read_text() == before
