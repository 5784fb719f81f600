import check_functions
import tree


def rules_of(text):
    return [rule for _, _, rule, _ in check_functions.function_findings("planted.cc", text)]


def function_of(statements):
    return "int planted(int a) {\n" + "\n".join(statements) + "\n  return a;\n}\n"


def test_no_more_functions_are_too_large_than_listed():
    assert check_functions.check(tree.ROOT) == []


def test_a_planted_function_is_reported_with_its_place(tmp_path):
    name = "src/planted.cc"
    (tmp_path / "src").mkdir()
    (tmp_path / name).write_text("\n" + function_of(["  a += 1;"] * 80))
    problems = check_functions.check(tmp_path)
    assert len(problems) == 1 and problems[0].startswith(f"{name}:2: tokens: planted has 3")


def test_a_function_with_many_tokens_is_found():
    assert rules_of(function_of(["  a += 1;"] * 80)) == ["tokens"]
    assert rules_of(function_of(["  a += 1;"] * 60)) == []


def test_a_function_with_many_branches_is_found():
    assert rules_of(function_of(["  if (a) a++;"] * 16)) == ["branches"]
    assert rules_of(function_of(["  if (a) a++;"] * 14)) == []


def test_assertions_are_counted(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.cc").write_text("int a;\n\nTND_ASSERT(a);\nstatic_assert(a);\nint b;\n")
    assert list(check_functions.report(tmp_path)) == ["500.0 assertions per 1,000 lines"]
