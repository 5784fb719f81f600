"""String matching: every count compared with str.find."""

import json
import random

import pytest

CHUNK = 12288  # bytes that the program stages at a time on a GPU; four times as many on the host executor


def count(word, text):
    """Occurrences that may overlap."""
    found, at = 0, text.find(word)
    while at >= 0:
        found += 1
        at = text.find(word, at + 1)
    return found


def expected_lines(words, texts):
    return b"".join(
        b"%-31s %10d\n" % (word, sum(count(word, text) for text in texts)) for word in words
    )


@pytest.fixture
def inputs(tmp_path):
    """A dictionary in random order, with hard words, and texts whose words cross the staged chunks."""
    draw = random.Random(1)
    words = [
        b"a",
        b"aa",
        b"aaa",
        b"the",
        b"other",
        b"The",
        b"x" * 31,
        b"caf\xc3\xa9",
        b"\xff\xff\xff\xff",
        b"the",
    ]
    words += sorted(
        {bytes(draw.choice(b"abcdefgh") for _ in range(draw.randint(1, 7))) for _ in range(700)}
    )
    text = bytearray(bytes(draw.choice(b"abcdefgh ") for _ in range(5 * CHUNK + 77)))
    for at, word in (
        (CHUNK - 1, b"other"),
        (2 * CHUNK - 15, b"x" * 31),
        (100, b"aaaa"),
        (5 * CHUNK + 46, b"x" * 31),
        (500, b"caf\xc3\xa9"),
        (3 * CHUNK - 2, b"\xff\xff\xff\xff"),
        (4 * CHUNK - 16, b"x" * 31),
        (4 * CHUNK + 31, b"other"),
    ):
        text[at : at + len(word)] = word
    texts = [bytes(text), b"the", b""]
    (tmp_path / "words").write_bytes(b"\r\n".join(words))  # no line end after the last
    names = []
    for i, content in enumerate(texts):
        (tmp_path / f"text{i}").write_bytes(content)
        names += ["--text", tmp_path / f"text{i}"]
    return words, texts, ["--dictionary", tmp_path / "words", *names, "--output", tmp_path / "out"]


def test_every_count(program, inputs, tmp_path):
    words, texts, line = inputs
    program("string_match").pass_run(*line, "--text-limit", 0)
    assert (tmp_path / "out/counts.txt").read_bytes() == expected_lines(words, texts)


def test_without_gfile_the_same(program, inputs, tmp_path):
    words, texts, line = inputs
    program("string_match").pass_run(*line, "--text-limit", 0, "--no-api")
    assert (tmp_path / "out/counts.txt").read_bytes() == expected_lines(words, texts)


def test_limits(program, inputs, tmp_path):
    words, texts, line = inputs
    program("string_match").pass_run(*line, "--text-limit", CHUNK + 3, "--word-limit", 300)
    assert (tmp_path / "out/counts.txt").read_bytes() == expected_lines(
        words[:300], [t[: CHUNK + 3] for t in texts]
    )


def test_over_a_store(program, store, inputs):
    report = json.loads(
        program("string_match").pass_run(*inputs[2], "--store", store, "--verify", "--json")
    )
    assert report["verified"] and report["mode"] == "gfile" and report["words"] == len(inputs[0])
    assert report["seconds"]["total"] >= report["seconds"]["match"] > 0


@pytest.mark.parametrize("mode", [[], ["--no-api"]])
def test_a_wrong_count_is_found(program, inputs, mode):
    output = program("string_match").fail_run(*inputs[2], "--verify", "--plant", *mode)
    assert "wrong counts: expected" in output


def test_a_dictionary_longer_than_a_chunk_and_a_generated_text(program, tmp_path):
    draw = random.Random(2)
    words = [
        bytes(draw.choice(b"abcdefghijkl") for _ in range(draw.randint(3, 12))) for _ in range(6000)
    ]
    (tmp_path / "words").write_bytes(b"\n".join(words) + b"\n")
    program("string_match").pass_run(
        "--dictionary", tmp_path / "words", "--output", "out", "--verify", "--text-limit", 20000
    )
    text = (tmp_path / "out/generated.txt").read_bytes()[:20000]
    assert (tmp_path / "out/counts.txt").read_bytes() == expected_lines(words, [text])


def test_words_far_apart(program, inputs, tmp_path):
    """Blank lines between words of one block, more than it stages at a time."""
    words, texts, line = inputs
    (tmp_path / "words").write_bytes(b"\n" * 100 + (b"\n" * 100).join(words) + b"\n\n")
    program("string_match").pass_run(*line, "--text-limit", 0)
    assert (tmp_path / "out/counts.txt").read_bytes() == expected_lines(words, texts)


def test_a_word_too_long(program, inputs, tmp_path):
    (tmp_path / "words").write_bytes(b"short\n" + b"y" * 32 + b"\n")
    assert "at most 31 bytes" in program("string_match").fail_run(*inputs[2])


def test_a_text_that_is_not_there(program, inputs, tmp_path):
    output = program("string_match").fail_run(*inputs[2], "--text", tmp_path / "absent")
    assert "ENOENT" in output
