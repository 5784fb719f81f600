import check_names
import pytest
import tree


def test_the_tree_has_no_worse_names_than_listed():
    assert check_names.check(tree.ROOT) == []


def test_a_planted_name_is_reported_with_its_place(tmp_path):
    name = "src/planted.hpp"
    (tmp_path / "src").mkdir()
    (tmp_path / name).write_text("#pragma once\n\nint size_of(const char *what);\n")
    problems = check_names.check(tmp_path)
    assert len(problems) == 1 and problems[0].startswith(f"{name}:3: name: what is no name")


def names_of(text):
    return [what.partition(" ")[0] for _, _, _, what in check_names.name_findings("a.cc", text)]


@pytest.mark.parametrize("name", sorted(check_names.STOP_LIST))
def test_each_name_of_the_stop_list_is_found(name):
    assert names_of(f"int {name} = 0;\n") == [name]
    assert names_of(f"request.{name}_->next();\n") == [f"{name}_"]


@pytest.mark.parametrize(
    "text",
    [
        "int request, offset_at, made_count, of_order;\n",
        "int a;  // what is made of which\n",
        "/* all\n of */ int a;\n",
        'auto a = "what of it";\n',
        'auto a = R"(which one)";\n',
        "#define PAGE(at) \\\n  page(at)\n",
        "double a = 1.e5;\n",
    ],
)
def test_what_is_allowed_is_not_found(text):
    assert names_of(text) == []


def products_of(*names):
    return [(product, rule) for product, _, rule, _ in check_names.basename_findings(names)]


def test_a_basename_used_again_within_a_product_is_found():
    assert products_of("src/products/pool/log.hpp", "src/products/pool/client/log.hpp") == [
        ("src/products/pool/", "log.hpp")
    ]
    assert products_of("src/rpc/a/log.hpp", "src/rpc/b/log.hpp", "src/rpc/c/log.hpp") == [
        ("src/rpc/", "log.hpp"),
        ("src/rpc/", "log.hpp"),
    ]


def test_the_same_basename_in_two_products_is_allowed():
    assert products_of("src/products/pool/log.hpp", "src/products/o2g/log.hpp") == []
    assert products_of("src/rpc/log.hpp", "src/rpc/log.cc") == []


def test_a_planted_file_with_a_basename_that_is_taken_fails(tmp_path):
    for folder in ("client", "store"):
        (tmp_path / "src/products/pool" / folder).mkdir(parents=True)
        (tmp_path / "src/products/pool" / folder / "log.hpp").write_text("#pragma once\n")
    problems = check_names.check(tmp_path)
    assert len(problems) == 1 and "store/log.hpp has the basename of" in problems[0]
