"""The library knows every TND_ variable, refuses unknown ones, and documents all of them."""

import check_settings

ROOT = check_settings.tree.ROOT


def test_the_list_is_complete():
    assert check_settings.check(ROOT) == []


def test_a_variable_that_is_not_listed_is_found(tree_copy):
    (tree_copy / "src/core/base/planted.cc").write_text(
        'const char *text = std::getenv("TND_PLANTED_LIMIT");\n'
    )
    (tree_copy / "tools/planted.sh").write_text('echo "${TND_PLANTED_WORD:-none}"\n')
    problems = check_settings.check(tree_copy)
    assert len(problems) == 2
    assert problems[0].startswith("src/core/base/planted.cc: TND_PLANTED_LIMIT is not in")
    assert problems[1].startswith("tools/planted.sh: TND_PLANTED_WORD is not in")


def test_a_key_of_the_daemon_that_is_not_listed_is_found(tree_copy):
    options = tree_copy / "src/products/poold/options.cc"
    options.write_text(
        options.read_text()
        .replace('"drain",', '"drain", "planted",')
        .replace('"drain"}', '"drain", "planted"}')
    )
    assert [line.split(": ")[1].split()[0] for line in check_settings.check(tree_copy)] == [
        "TND_POOLD_PLANTED"
    ]


def test_a_listed_name_that_nobody_reads_or_documents_is_found(tree_copy):
    listed = tree_copy / check_settings.LIST
    listed.write_text(
        listed.read_text().replace(
            '    "TND_LOG",\n', '    "TND_LOG",\n    // a word\n    "TND_LOST",\n'
        )
    )
    problems = check_settings.check(tree_copy)
    assert len(problems) == 2
    assert problems[0].endswith("TND_LOST is read nowhere") and problems[1].endswith(
        "TND_LOST stands on no page of docs/"
    )


def test_a_listed_name_without_a_comment_is_found(tree_copy):
    listed = tree_copy / check_settings.LIST
    text = listed.read_text()
    start = text.index("    // the least severe level")
    listed.write_text(text[:start] + text[text.index('    "TND_LOG"') :])
    assert check_settings.check(tree_copy) == [
        f"{check_settings.LIST}: TND_LOG has no comment above it"
    ]
