import check_prose
import pytest
import tree


def rules_of(name, text):
    return [rule for _, _, rule, _ in check_prose.findings_of(name, text)]


def test_the_tree_reads_no_worse_than_listed():
    assert check_prose.check(tree.ROOT) == []


def test_a_planted_sentence_is_reported_with_its_place(tmp_path):
    name = "src/planted.cc"
    (tmp_path / "src").mkdir()
    (tmp_path / name).write_text("// A lock.\nint a;\n\n// A page.\n// Who waits is woken.\n")
    for document in check_prose.MARKDOWN_FILES:
        (tmp_path / document).write_text("# A title\n")
    problems = check_prose.check(tmp_path)
    assert len(problems) == 1 and problems[0].startswith(f"{name}:5: who-clause: 'Who waits'")


SENTENCES = [
    ("Who comes next has its room kept.", "who-clause"),
    ("Whoever waits goes on.", "who-clause"),
    ("The lock is released by who holds it.", "who-clause"),
    ("Pages are read for\n// who asks.", "who-clause"),
    ("It lies in its set alone.", "alone"),
    ("It lies in its set\n// alone.", "alone"),
    ("The daemon tells its clients.", "tells"),
    ("The status says why.", "tells"),
    ("What it was told is dropped.", "tells"),
    ("The peer is heard first.", "tells"),
    ("It fails for want of memory.", "want"),
    ("Null: there is none.", "want"),
    ("The seed's figure 6 has the sizes.", "seed"),
    ("The loop is that of the seed, 4.6.", "seed"),
    ("A stranger may connect.", "homely"),
    ("It polls in vain.", "homely"),
]


@pytest.mark.parametrize("sentence, rule", SENTENCES)
def test_a_planted_sentence_is_found_in_code(sentence, rule):
    assert rules_of("src/planted.hpp", f"int a;  // {sentence}\n") == [rule]


@pytest.mark.parametrize(
    "name, text",
    [
        ("src/planted.cc", "/* Who waits is woken. */\n"),
        ("src/planted.cc", "/**\n * A page.\n * Who waits is woken.\n */\n"),
        ("src/planted.cc", "/// Who waits is woken.\n"),
        ("src/planted.cc", 'log("peer %d: by who came first", peer);\n'),
        ("cmd/planted.cc", 'print("It is read by who asks.");\n'),
        ("tools/planted.py", '"""Who waits is woken."""\n'),
        ("tools/planted.py", "def f():\n    # Who waits is woken.\n    pass\n"),
        ("tools/planted.sh", "a=1\n# Who waits is woken.\n"),
        ("src/CMakeLists.txt", "# Who waits is woken.\n"),
        ("docs/planted.md", "# Waiting\n\nWho waits is woken.\n"),
        ("docs/planted.md", "- Who waits is woken.\n"),
        ("docs/planted.md", "| a | b |\n| --- | --- |\n| woken | by who comes |\n"),
    ],
)
def test_a_planted_sentence_is_found_wherever_prose_stands(name, text):
    assert rules_of(name, text) == ["who-clause"]


@pytest.mark.parametrize(
    "name, text",
    [
        ("src/planted.cc", "// Reserve room for the next rank, the one that asks.\n"),
        ("src/planted.cc", "// Who is it? Those who wait, whom we wake, know.\n"),
        ("src/planted.cc", "// The word 'told', `who alone tells` and \"says\" are quoted.\n"),
        ("src/planted.cc", "int who, tells, said = alone;\n"),
        ("src/planted.cc", "// A failure prints the seed, and the seed replays it.\n"),
        ("src/planted_test.cc", 'TEST(a, b) { log("told by who came"); }\n'),
        ("tools/planted.py", 'text = "Who waits is woken."\n'),
        ("docs/planted.md", "```\nWho waits is woken.\n```\n"),
    ],
)
def test_what_is_allowed_is_not_found(name, text):
    assert rules_of(name, text) == []


LONG = " ".join(["word"] * 16)


@pytest.mark.parametrize(
    "text, rule",
    [
        (f"| {LONG} | b |\n", "cell"),
        ("| a; b | c |\n", "table-semicolon"),
        ("word " * 21 + "\n", "width"),
        ("word " * 20 + "\n" + "word " * 20 + "\nword.\n", "sentence"),
    ],
)
def test_planted_markdown_is_found(text, rule):
    assert rules_of("docs/planted.md", text) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        f"| {' '.join(['word'] * 15)} | `a; b` |\n",
        f"| {' '.join(['`a b`,'] * 15)} | b |\n",
        "[title](https://example.org/" + "a" * 100 + ")\n",
        "```\n" + "word " * 30 + "\n```\n",
        "<!-- measured: planted -->\n" + "word " * 45 + "\n<!-- end -->\n",
        ("word " * 18 + "end.\nNext ") * 3 + "end.\n",
    ],
)
def test_markdown_that_is_allowed_is_not_found(text):
    assert rules_of("docs/planted.md", text) == []
