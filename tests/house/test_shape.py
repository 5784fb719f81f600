import check_shape
import pytest
from check_shape import ASSIGNMENT, COMMA, CONDITIONAL, LINE, SHORT_CIRCUIT


def test_the_tree_is_in_shape(tree_copy):
    assert check_shape.check(tree_copy) == []


def test_a_planted_fault_is_reported_with_its_place(tmp_path):
    folder = tmp_path / "src/core/base"
    folder.mkdir(parents=True)
    (folder / "planted.cc").write_text("void f() {\n  a(), b();\n}\n")
    assert check_shape.check(tmp_path) == [f"src/core/base/planted.cc:2: {COMMA}"]


def in_function(statements):
    return f"status file::find(int fd) const {{\n{statements}\n}}\n"


@pytest.mark.parametrize(
    "statement, what",
    [
        ("a(), b();", COMMA),
        ("a = 1, b = 2;", COMMA),
        ("(void)a, (void)b;", COMMA),
        ("count++, left--;", COMMA),
        ("std::get<0>(a) = 1, b = 2;", COMMA),
        ("return release(info), nullptr;", COMMA),
        ("return delete made, -1;", COMMA),
        ("if (a)\nb(), c();", COMMA),
        ("else\nb(), c();", COMMA),
        ("for (int i = 0; i < 3; i++)\nb(i), c(i);", COMMA),
        ("case 1: a(), b();", COMMA),
        ("[[likely]] a(), b();", COMMA),
        ("again: a(), b();", COMMA),
        ("return a ? b : (c(), d);", COMMA),
        ("x = (a(), b);", COMMA),
        ("f((a(), b));", COMMA),
        ("if (a(), b)\nc();", COMMA),
        ("while (read(), left)\nc();", COMMA),
        ("x[a, b] = 1;", COMMA),
        ("auto const f = [&](int a) { b(), c(); };", COMMA),
        ("run([] { b(), c(); });", COMMA),
        ("EXPECT_EQ(f([] { b(), c(); }), 1);", COMMA),
        ("EXPECT_EQ(f((b(), c)), 1);", COMMA),
        ("UNROLL\nfor (;;)\na(), b();", COMMA),
        ("struct local {\nvoid g() { a(), b(); }\n};", COMMA),
        ("x = {.run = [] { a(), b(); }};", COMMA),
        ("kernel<<<(a(), b), 1>>>(c);", COMMA),
        ("a ? b() : c();", CONDITIONAL),
        ("a ? b = 1 : c = 1;", CONDITIONAL),
        ("a.b->c(d) ? (void)e() : (void)f();", CONDITIONAL),
        ("if (a)\nb ? c() : d();", CONDITIONAL),
        ("a && b();", SHORT_CIRCUIT),
        ("is_open || open();", SHORT_CIRCUIT),
        ("if (a = b())\nc();", ASSIGNMENT),
        ("if ((a = b()) != 0)\nc();", ASSIGNMENT),
        ("if (int a = b(); (c = a) != 0)\nd();", ASSIGNMENT),
        ("while ((n = read(fd)) > 0)\nc();", ASSIGNMENT),
        ("do\na();\nwhile ((n /= 10) != 0);", ASSIGNMENT),
        ("for (int c; (c = next()) != 0;)\nd();", ASSIGNMENT),
        ("switch (a = b) { default: break; }", ASSIGNMENT),
        ("sum = (x = 1) + y;", ASSIGNMENT),
        ("a = b = 0;", ASSIGNMENT),
        ("a += b = 0;", ASSIGNMENT),
        ("int a = b = 0;", ASSIGNMENT),
        ("auto &kept = all[name] = made;", ASSIGNMENT),
        ("return a = 1;", ASSIGNMENT),
        ("return (a += 1) <= 2;", ASSIGNMENT),
        ("f(a = 1, b);", ASSIGNMENT),
        ("f(g(now += 4), b);", ASSIGNMENT),
        ("words[turn ^= 1] = 2;", ASSIGNMENT),
        ("x = {.a = b = 1};", ASSIGNMENT),
        ("EXPECT_EQ((n = f()), 3);", ASSIGNMENT),
        ("until([&] { return (a = b()) != c; });", ASSIGNMENT),
        ("a(); b();", LINE),
        ("case 1: a(); b(); break;", LINE),
        ("run([] { a(); b(); });", LINE),
    ],
)
def test_a_planted_fault_is_found(statement, what):
    found = check_shape.check_text(in_function(statement))
    assert [each for _, each in found] == [what], found


@pytest.mark.parametrize(
    "statement",
    [
        "int a, b;",
        "int a = 1, b = 2, *c = &a;",
        "u64 const a = 1, b(2), c{3};",
        "const char *a = x, *b = y;",
        "std::vector<int> a(3), b{1, 2};",
        "std::map<int, std::string> all;",
        "std::array<int, a + 1> all;",
        "std::array<std::mutex, all.size()> some;",
        "node *a = b, *c = d;",
        "record const &a = b, &c = d;",
        "void (*f)(int, int) = g;",
        "auto [a, b] = f();",
        "auto const &[a, b] = f();",
        "const auto [a, b] = f();",
        "a = {1, 2, 3};",
        "a = b{1, 2};",
        "a = (struct b){1, 2};",
        "a = (record){.b = 1, .c = 2};",
        "a = {.b = 1, .c = {2, 3}};",
        "a = {[0] = 1, [1] = 2};",
        "return {1, 2};",
        "return f(1, 2);",
        "return std::pair<int, int>(1, 2);",
        "return std::pair<int, int>{1, 2};",
        "return (*call)(a, b);",
        "return (int)f(a, b);",
        "return a < b;",
        "return a <= b && c >= d;",
        "return a ? b : c;",
        "return a && b;",
        "return [a, b = c] { return a; };",
        "return [=, &a](int b, int c = 3) mutable -> int { return b; };",
        "f(a, b);",
        "f<a, b>(c, d);",
        "f(a ? b : c, d);",
        "f(a == b, c != d, e <= g);",
        "f([](int a, int b) { return a; }, c);",
        'f(\'=\', "a = b, c", R"(a = b, c)");',
        "a = b ? c : d;",
        "a += b ? 1 : 2;",
        "a = b && c;",
        "(void)f(a, b);",
        "(*a).b = c;",
        "delete a;",
        "void *a = ::operator new(size, std::nothrow);",
        "::operator delete(a, std::align_val_t{8});",
        "auto *a = new (b) c(d, e);",
        "for (int i = 0, j = 1; i < j; i++, j--)\na();",
        "for (i = 0; i < 3; i += 2)\na();",
        "for (auto const &[a, b] : c)\nd();",
        "if (auto const a = b(); a != 0)\nc();",
        "if (int *a = b())\nc();",
        "if (a == b)\nc();",
        "if constexpr (std::is_same_v<A, B>)\nc();",
        "case 1: a = 1; break;",
        "case a::b: return c;",
        "default: a(); return;",
        "TND_ASSIGN(a = b());",
        "CALL(f, (a, b), g);",
        "EXPECT_EQ(a, (std::vector<int>{1, 2}));",
        "MACRO(a)\nMACRO(b)\nf(c);",
        "MACRO(a) {\nf(c);\n}",
        "TND_UNROLL\nfor (int i = 0; i < 3; i++)\na();",
        "(f(a), ...);",
        "kernel<<<grid, block, 0, stream>>>(a, b);",
        'asm volatile("" : "=r"(a), "=r"(b) : "r"(c), "r"(d));',
        "struct local {\nint a = 1, b = 2;\nlocal(int c, int d) : a{c}, b(d) { f(); }\n};",
        "enum { first = 1, second = 2 };",
        "enum class kind : int { first, second = 2 };",
        "using a = std::map<int, int>;",
        "typedef struct { int a, b; } c;",
        "extern int f(int a, int b);",
        'static_assert(a == b, "c, d");',
        "try {\na();\n} catch (const std::exception &b) {\nc();\n}",
        "if (a) [[unlikely]] {\nb();\n} else if (c) [[likely]]\nd();",
        "// a(), b();",
        "/* a(), b(); */",
        "#define A() a(), b()",
    ],
)
def test_what_is_allowed_is_not_found(statement):
    assert check_shape.check_text(in_function(statement)) == []


@pytest.mark.parametrize(
    "text",
    [
        "template <class A = int, class B = A> struct c;",
        "template <class A, int b = 1> void f(A a, int c = b) {\n}",
        "int f(int a = 1, int b = 2);",
        "struct a {\na &operator=(const a &) = default;\na &operator+=(int b) { return *this; }\n};",
        "struct a final : b, c {\nint d = 1, e;\na(int f, int g) : d{f}, e{g} {}\n};",
        "struct a {\nb &&value() && noexcept {\nreturn c;\n}\n};",
        "class a {\npublic:\nexplicit a(int b, int c) : b_{b}, c_(c) {\nf();\n}\nprivate:\nint b_, c_;\n};",
        "int const all[] = {1, 2}, more[2] = {3, 4};",
        "auto const f = [](int a, int b) { return a; };",
        "std::function<void(int, int)> g{[](int, int) {}};",
        'extern "C" {\nint f(int a, int b);\n}',
        "namespace a::b {\nint c, d;\n}",
        "enum class a { b = 1, c = 2 };",
        "TEST(a, b) {\nint c, d;\n}",
        "DEFINE(int, f, (int a, int b), {\nreturn a;\n})",
    ],
)
def test_declarations_are_not_found(text):
    assert check_shape.check_text(text) == []
