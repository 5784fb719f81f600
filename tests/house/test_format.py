import shutil

import check_format
import pytest

ROOT = check_format.tree.ROOT


@pytest.fixture
def small_tree(tmp_path):
    """The settings of the tools, and one well-formatted file of each kind."""
    for name in (
        ".clang-format",
        "pyproject.toml",
        "src/core/base/assert.hpp",
        "tools/tree.py",
        "tools/demo.sh",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_tree_is_laid_out(tree_copy):
    assert check_format.check(tree_copy) == []


@pytest.mark.parametrize(
    "name, text, tool",
    [
        ("src/core/base/planted.cc", "int a;int b;\n", "clang-format"),
        (
            "src/core/base/planted.hpp",
            "inline int *a(){ return nullptr; }\n",
            "clang-format",
        ),
        (
            "src/core/base/planted.cc",
            "void f(bool a) {\n  if (a) return;\n}\n",
            "clang-format",
        ),
        ("src/core/base/planted.cc", "int " + "a" * 60 + " =\n  0;\n", "clang-format"),
        ("tools/planted.py", "a = {'b':1}\n", "ruff"),
        ("tools/planted.sh", "if true; then\necho a\nfi\n", "shfmt"),
    ],
)
def test_a_planted_fault_is_found_and_fixed(small_tree, name, text, tool):
    assert check_format.check(small_tree) == []
    (small_tree / name).write_text(text)
    problems = check_format.check(small_tree)
    assert len(problems) == 1 and problems[0].startswith(f"{name}: {tool}"), problems
    check_format.fix(small_tree)
    assert check_format.check(small_tree) == []
