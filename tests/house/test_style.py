import check_style
import pytest


def test_the_tree_is_in_style(tree_copy):
    assert check_style.check(tree_copy) == []


def plant(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.parametrize(
    "text, what",
    [
        ("int a;\n" * 801, "801 lines"),
        ("\tint a;\n", "tab"),
        ("int a; \n", "blank at the end"),
        ("int a;", "no newline"),
        ("// TO" + "DO: later\n", "leftover"),
        ("// FIX" + "ME\n", "leftover"),
        ("#if 0\nint a;\n#endif\n", "dead code"),
        ("#if defined(__CUDACC__)\n#endif\n", "conditionals"),
        ("#ifdef NDEBUG\n#endif\n", "conditionals"),
        ("#ifndef PLANTED_H\n#define OTHER_H\n#endif\n", "conditionals"),
        ('status f() {\n  return fail(status::io, "%d bytes", 3);\n}\n', "printf"),
        ('void f() {\n  log(log_level::info, "{}: "\n      "%.3f s", url, 1.5);\n}\n', "printf"),
        ('void f() {\n  fatal(g("a"), "%016llx", 1ull);\n}\n', "printf"),
    ],
)
def test_a_planted_fault_is_found(tmp_path, text, what):
    plant(tmp_path, "src/core/base/planted.hpp", text)
    problems = check_style.check(tmp_path)
    assert len(problems) == 1 and what in problems[0], problems


@pytest.mark.parametrize(
    "name, text",
    [
        ("src/core/base/planted.hpp", "int a;\n" * 800),
        ("src/core/base/planted.hpp", "#ifndef PLANTED_H\n#define PLANTED_H\n#endif\n"),
        ("src/backends/planted.hpp", "#ifdef __linux__\n#endif\n"),
        ("src/core/base/planted.hpp", 'void f() {\n  log(level, "{} of 5 %", 3);\n}\n'),
        ("src/core/base/planted.hpp", 'void f() {\n  log(level, "{}", 3);\n  g("%d", 3);\n}\n'),
        ("kernel/o2g/planted.c", "#ifdef CONFIG_NET\n\tint a;\n#endif\n"),
        ("include/tanada/planted.h", "#if defined(__cplusplus)\n#endif\n"),
    ],
)
def test_what_is_allowed_is_not_found(tmp_path, name, text):
    plant(tmp_path, name, text)
    assert check_style.check(tmp_path) == []


@pytest.mark.parametrize("name", ["core", "tests/e2e/trace.json"])
def test_a_large_file_is_found(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(check_style.SIZE_MAX))
    assert check_style.check(tmp_path) == []
    path.write_bytes(bytes(check_style.SIZE_MAX + 1))
    assert check_style.check(tmp_path) == [f"{name}: 1048577 bytes: more than 1048576"]
