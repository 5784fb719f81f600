import json
import shutil

import check_tidy
import pytest

ROOT = check_tidy.tree.ROOT
SOURCE = "src/core/base/planted.cc"
COMPLEX = """int knot(int a, int b) {
  int found = 0;
  for (int i = 0; i < a; i++)
    for (int j = 0; j < b; j++)
      if (i != j) {
        if (i < b) {
          while (found < i)
            if (found % 3 == j)
              found += 2;
            else
              found++;
        } else if (j > 3) {
          if (found > 5)
            found--;
        }
      }
  return found;
}
"""
FAULT = """int drain(int count) {
  int left = count;
  while (left > 0)
    count--;
  return left;
}
"""


@pytest.fixture
def small_tree(tmp_path):
    """One source, the settings of clang-tidy, and an empty list."""
    (tmp_path / "src/core/base").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    (tmp_path / check_tidy.LIST).write_text("# A list.\n")
    shutil.copy(ROOT / ".clang-tidy", tmp_path)
    command = {"directory": str(tmp_path), "file": str(tmp_path / SOURCE)}
    command["command"] = f"c++ -std=c++20 -c {tmp_path / SOURCE}"
    (tmp_path / "compile_commands.json").write_text(json.dumps([command, command]))
    return tmp_path


def check(root, **options):
    return check_tidy.check(root, root, ("core",), **options)


def test_code_without_faults_passes(small_tree):
    (small_tree / SOURCE).write_text("int one() {\n  return 1;\n}\n")
    assert check(small_tree) == []


def test_a_planted_fault_is_found(small_tree):
    (small_tree / SOURCE).write_text(FAULT)
    problems = check(small_tree)
    assert len(problems) == 1 and "bugprone-infinite-loop" in problems[0], problems
    assert problems[0].startswith(f"{SOURCE}:3: ")


def test_a_complex_function_has_to_be_listed(small_tree):
    (small_tree / SOURCE).write_text(COMPLEX)
    problems = check(small_tree)
    assert len(problems) == 1 and problems[0].startswith(f"{SOURCE} knot has a"), problems
    number = int(problems[0].split("complexity of ")[1].split(":")[0])
    (small_tree / check_tidy.LIST).write_text(f"{SOURCE} knot: {number}\n")
    assert check(small_tree) == []


def test_the_list_only_sinks(small_tree):
    path = small_tree / check_tidy.LIST
    (small_tree / SOURCE).write_text(COMPLEX)
    path.write_text(f"# A list.\n{SOURCE} gone: 40\n{SOURCE} knot: 99\nsrc/pool/a.cc b: 30\n")
    assert len(check(small_tree)) == 2
    assert check(small_tree, lower=True) == []
    lines = path.read_text().splitlines()
    assert lines[0] == "# A list." and lines[2] == "src/pool/a.cc b: 30" and len(lines) == 3
    assert 25 < int(lines[1].removeprefix(f"{SOURCE} knot: ")) < 99
    path.write_text(f"{SOURCE} knot: 26\n")
    assert len(check(small_tree, lower=True)) == 1
    assert path.read_text() == f"{SOURCE} knot: 26\n"


def test_each_overload_counts():
    name = f"{SOURCE} f"

    def compared(now, before):
        return list(check_tidy.compare({name: now} if now else {}, {name: before}, ("core",)))

    assert compared([40, 30], [40, 30]) == []
    assert "is simpler" in compared([40], [40, 30])[0]
    assert "is simpler" in compared([], [30])[0]
    assert "make it simpler" in compared([40, 30], [40])[0]
    assert "make it simpler" in compared([41, 26], [40, 30])[0]


def test_tests_are_left_out(small_tree):
    path = small_tree / "compile_commands.json"
    path.write_text(path.read_text().replace("planted.cc", "planted_test.cc"))
    assert check_tidy.sources(small_tree, small_tree, ("core",)) == []


def test_a_source_that_does_not_compile_is_a_fault(small_tree):
    (small_tree / SOURCE).write_text("int one() {\n  return two;\n}\n")
    problems = check(small_tree)
    assert len(problems) == 1 and "clang-diagnostic-error" in problems[0], problems
