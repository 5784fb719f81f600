import check_docs
import pytest


def test_readme_and_docs_hold(tree_copy):
    assert check_docs.check(tree_copy) == []


@pytest.mark.parametrize(
    "text, what",
    [
        ("line\n" * 171, "lines, at most 170"),
        ("```cpp\n// examples/planted.cc\nint b;\n```\n", "is not in the file"),
        ("```cpp\n// examples/no_such.cc\nint a;\n```\n", "does not exist"),
        ("```cpp\nint a;\n```\n", "does not start with a comment naming its file"),
        ("```sh\nmake everything\n```\n", "make everything does not exist"),
        ("```sh\nmake CUDA=1 everything\n```\n", "make everything does not exist"),
        ("Say `make tea`.\n", "make tea does not exist"),
        ("[here](docs/no-such.md)\n", "leads nowhere"),
        ("# Title\n[here](#no-such)\n", "no such heading"),
    ],
)
def test_a_planted_fault_is_found(tree_copy, text, what):
    (tree_copy / "examples/planted.cc").write_text("// A comment.\nint a;\n")
    (tree_copy / "README.md").write_text(text)
    problems = check_docs.check(tree_copy)
    assert any(what in problem for problem in problems), problems


def test_a_good_page_passes(tree_copy):
    (tree_copy / "examples/planted.cc").write_text("// A comment.\nint a;\n")
    (tree_copy / "README.md").write_text(
        "# A title\n[above](#a-title) [far](https://example.org)\n```sh\nmake test\n```\n"
        "```cpp\n// examples/planted.cc\nint a;\n```\n"
    )
    assert check_docs.check_readme(tree_copy, (tree_copy / "README.md").read_text()) == []
    assert not [problem for problem in check_docs.check(tree_copy) if problem.startswith("README")]


def test_a_planted_change_in_the_code_of_a_page_is_found(tree_copy):
    page = tree_copy / "docs/kernels.md"
    page.write_text(page.read_text().replace("part[i] *= 2", "part[i] *= 3"))
    assert check_docs.check(tree_copy) == [
        "docs/kernels.md: the code block of examples/twice/twice.cu is not in the file"
    ]


@pytest.mark.parametrize(
    "plant, what",
    [
        (lambda tree: (tree / "docs/planted.md").write_text("# A page\n"), "no place on the site"),
        (lambda tree: (tree / "docs/pool.md").unlink(), "docs/pool.md does not exist"),
        (
            lambda tree: (tree / check_docs.CONTENTS).write_text(
                (tree / check_docs.CONTENTS).read_text().replace('"gfile"', '"pool"')
            ),
            "pool stands in it 2 times",
        ),
    ],
)
def test_a_page_without_its_place_on_the_site_is_found(tree_copy, plant, what):
    plant(tree_copy)
    problems = list(check_docs.check_contents(tree_copy))
    assert any(what in problem for problem in problems), problems


@pytest.mark.parametrize(
    "text, what",
    [
        ("line\n" * 101, "more than 100 lines"),
        ("```c\nint a;\n```\n", "does not start with a comment naming its file"),
        ("```cuda\n// a.cu\n" + "int a;\n" * 40 + "```\n", "more than 40 lines"),
        ("```\nls\n```\n", "no test runs blocks of no language"),
        ("```python\n# a.py\n```\n", "no test runs blocks of python"),
    ],
)
def test_a_first_page_that_is_long_or_untested_is_found(tree_copy, text, what):
    (tree_copy / "docs/start/kernel.md").write_text(text)
    problems = check_docs.check(tree_copy)
    assert any("docs/start/kernel.md" in found and what in found for found in problems), problems
