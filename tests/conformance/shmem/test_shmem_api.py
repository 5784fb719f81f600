"""Does libshmem.so have every call of OpenSHMEM 1.6 twice, and shmem.h each with its exact prototype, and every generic name for
every type? Each question is asked of something broken, too."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import api_list

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
HEADERS = ROOT / "include/compat"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
CALLS = api_list.read()
# Those of the draft auxiliary specification for GPUs, 0.1, that the host calls, and one beside them.
DEVICE_CALLS = {
    "shmemg_malloc": "void *shmemg_malloc(size_t size)",
    "shmemg_calloc": "void *shmemg_calloc(size_t count, size_t size)",
    "shmemg_align": "void *shmemg_align(size_t alignment, size_t size)",
    "shmemg_free": "void shmemg_free(void *ptr)",
    "shmemx_device_kind": "int shmemx_device_kind(void)",
}
# What shmemx.h declares beside, and waits for arrays that other implementations have.
EXTENSION_CALLS = {
    "shmemx_wtime": "double shmemx_wtime(void)",
    "shmemx_nodename": "char *shmemx_nodename(void)",
}
for kind, spelled in (("short", "short"), ("ushort", "unsigned short")):
    for form in (
        call for call in CALLS if re.match(r"shmem_int_(wait_until|test)_(all|any|some)", call.name)
    ):
        name = form.name.replace("_int_", f"_{kind}_")
        prototype = re.sub(
            r"\bint (?=\*ivars|cmp_value)|(?<=const )int (?=\*cmp_values)",
            f"{spelled} ",
            form.prototype,
        )
        EXTENSION_CALLS[name] = prototype.replace(form.name, name)
NAMES = [call.name for call in CALLS] + list(DEVICE_CALLS) + list(EXTENSION_CALLS)
# What the names of fixed width are on the 64-bit Linux that this runs on.
SAME = {
    "schar": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
    "size": "uint64",
    "ptrdiff": "int64",
}


def same(word):
    return SAME.get(word, word)


def compilers(*names):
    return [name for name in names if shutil.which(name)]


def compile_text(text, compiler, standard, headers=HEADERS, *options):
    """(exit status, what it printed) of compiling a text."""
    language = "c++" if "+" in compiler else "c"
    command = [
        compiler,
        f"-std={standard}",
        "-x",
        language,
        *STRICT,
        f"-I{headers}",
        *(options or ["-fsyntax-only"]),
        "-",
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def symbols(library):
    """{name: (kind, address)} of what a shared library has for others."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    words = [line.split() for line in lines]
    return {name.split("@")[0]: (kind, address) for address, kind, name in words}


def missing(names, found):
    return [name for plain in names for name in (plain, "p" + plain) if name not in found]


@pytest.fixture(scope="module")
def found():
    library = BUILD / "lib/libshmem.so"
    if not library.exists():
        pytest.skip(f"{library} is not built")
    return symbols(library)


def test_the_list_is_whole():
    assert len(CALLS) == len({call.name for call in CALLS}) == 1788
    assert sum(call.is_deprecated for call in CALLS) == 103
    assert len(api_list.generics()) == 73  # and shmem_global_exit, which has one type


def test_the_library_has_every_name_twice(found):
    assert missing(NAMES, found) == []


def test_the_library_has_nothing_else(found):
    # What modules of kernels call.
    modules = {"shmemx_module_register", "shmemx_executor_register", "shmemx_service_wake"}
    assert set(found) == {prefix + name for name in NAMES for prefix in ("", "p")} | modules


def test_the_plain_names_are_weak_ones_of_the_same_functions(found):
    for name in NAMES:
        assert found[name] == ("W", found["p" + name][1]) and found["p" + name][0] == "T", name


def test_a_name_that_is_not_there_is_found():
    names = {prefix + name for name in NAMES for prefix in ("", "p")}
    assert missing(NAMES, names - {"pshmem_int_put"}) == ["pshmem_int_put"]
    assert missing(NAMES, names - {"shmemg_free"}) == ["shmemg_free"]


def prototypes_text(translate=lambda text: text):
    lines = ["#include <shmem.h>\n#include <pshmem.h>\n#include <shmemg.h>\n#include <shmemx.h>\n"]
    prototypes = {call.name: call.prototype for call in CALLS} | DEVICE_CALLS | EXTENSION_CALLS
    for number, (name, prototype) in enumerate(prototypes.items()):
        for prefix in ("", "p"):
            pointer = prototype.replace(name + "(", f"(*{prefix}pointer{number})(", 1)
            lines.append(f"{translate(pointer)} = {prefix}{name};\n")
    return "".join(lines)


C_KINDS = [
    (compiler, standard) for compiler in compilers("gcc", "clang") for standard in ("c11", "c99")
]
CPP_KINDS = [
    (compiler, standard)
    for compiler in compilers("g++", "clang++")
    for standard in ("c++11", "c++20")
]


def rest_slow(values):
    """Parameters, of which `make test` takes the first."""
    return [*values[:1], *(pytest.param(value, marks=pytest.mark.slow) for value in values[1:])]


@pytest.mark.parametrize(("compiler", "standard"), C_KINDS)
def test_prototypes_are_exact_in_c(compiler, standard):
    assert compile_text(prototypes_text(), compiler, standard) == (0, "")


@pytest.mark.parametrize("kind", rest_slow(CPP_KINDS), ids=" ".join)
def test_prototypes_are_exact_in_cpp(kind):
    compiler, standard = kind
    assert compile_text(prototypes_text(api_list.in_cpp), compiler, standard) == (0, "")


@pytest.fixture
def broken_headers(tmp_path):
    """Copies the headers with one text replaced by another."""

    def make(name, text, by):
        shutil.copytree(HEADERS, tmp_path / "headers")
        path = tmp_path / "headers" / name
        assert path.read_text().count(text) >= 1
        path.write_text(path.read_text().replace(text, by, 1))
        return tmp_path / "headers"

    return make


@pytest.mark.parametrize(
    ("name", "text", "by"),
    [
        ("shmem/types.h", "X(ulong, unsigned long, A)", "X(ulong, unsigned int, A)"),
        (
            "shmem/rma.h",
            "const TYPE *source, size_t nelems, int pe);",
            "const TYPE *source, int nelems, int pe);",
        ),
        ("shmem/setup.h", "void P##shmem_finalize(void);", ""),
        (
            "shmemg/host.h",
            "void P##shmemg_free(void *ptr);",
            "void P##shmemg_free(const void *ptr);",
        ),
    ],
)
def test_a_wrong_prototype_is_found(broken_headers, name, text, by):
    status, output = compile_text(prototypes_text(), "gcc", "c11", broken_headers(name, text, by))
    assert status != 0 and "error" in output


def uses():
    """(function name, call, its generic name) for each generic name with each type it has, without a context and with one."""
    generics = api_list.generics()
    for number, call in enumerate(CALLS):
        name = api_list.generic_of(call)
        if name in generics and (
            call.word or name in ("shmem_sync", "shmem_signal_set", "shmem_signal_add")
        ):
            yield f"use{number}", call, name


def uses_text(translate=lambda text: text):
    """A function for each use, with the parameters of the call that it should come to, which it passes on to the generic name."""
    lines = ["#include <shmem.h>\n"]
    for function, call, name in uses():
        result = call.prototype.partition(call.name)[0].strip()
        kinds = api_list.parameters(call)
        declared = ", ".join(f"{kind} a{index}" for index, kind in enumerate(kinds)) or "void"
        passed = ", ".join(f"a{index}" for index in range(len(kinds)))
        says = "" if result == "void" else "return "
        head = translate(f"{result} {function}({declared})")
        linkage = 'extern "C" ' if translate is api_list.in_cpp else ""
        lines.append(f"{linkage}{head};\n{linkage}{head} {{ {says}{name}({passed}); }}\n")
    return "".join(lines)


def called(assembly):
    """{function: the calls of this library in it}"""
    calls, function = {}, None
    for line in assembly.splitlines():
        label = re.match(r"(use\d+):", line)
        if label:
            function = label[1]
            calls[function] = []
        elif function and (target := re.search(r"\b(?:call|jmp|bl|b)q?\s+(p?shmem_\w+)", line)):
            calls[function].append(target[1])
    return calls


def wrong_targets(assembly):
    calls = called(assembly)
    wrong = []
    for function, call, name in uses():
        targets = calls.get(function, [])
        # A type with several names may come to the call of any of them.
        like = re.escape(call.pattern).replace(re.escape("{NAME}"), r"(\w+?)")
        matched = re.fullmatch(like, targets[0]) if len(targets) == 1 else None
        by_old_name = (
            name == "shmem_wait_until"
            and targets == ["shmem_wait_until"]
            and same(call.word) == "int64"
        )
        if not by_old_name and (not matched or (call.word and same(matched[1]) != same(call.word))):
            wrong.append((name, call.word, targets))
    return wrong


def assembly_of(text, compiler, standard, headers=HEADERS):
    status, output = compile_text(text, compiler, standard, headers, "-O1", "-S", "-o", "-")
    assert status == 0, output
    return output


def test_there_is_a_use_of_every_generic_name():
    assert {name for _, _, name in uses()} == set(api_list.generics())


@pytest.mark.parametrize("compiler", rest_slow(compilers("gcc", "clang")))
def test_every_generic_name_takes_every_type_in_c11(compiler):
    assert wrong_targets(assembly_of(uses_text(), compiler, "c11")) == []


@pytest.mark.parametrize("compiler", rest_slow(compilers("g++", "clang++")))
def test_every_generic_name_takes_every_type_in_cpp(compiler):
    assert wrong_targets(assembly_of(uses_text(api_list.in_cpp), compiler, "c++11")) == []


def test_a_generic_name_of_another_call_is_found(broken_headers):
    headers = broken_headers(
        "shmem/generics.h",
        "shmem_iput(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, iput,",
        "shmem_iput(...) SHMEM_BY_CTX_(SHMEM_TABLE_RMA_DISTINCT, iget,",
    )
    assert {
        name for name, _, _ in wrong_targets(assembly_of(uses_text(), "gcc", "c11", headers))
    } == {"shmem_iput"}


def test_a_generic_name_without_a_type_is_found(broken_headers):
    headers = broken_headers("shmem/types.h", "X(complexd, SHMEM_COMPLEXD, A)", "")
    assert compile_text(uses_text(), "gcc", "c11", headers)[0] != 0


def test_a_type_that_a_generic_name_does_not_take_is_refused():
    text = "#include <shmem.h>\nvoid f(double *at) { shmem_atomic_add(at, 1.0, 0); }\n"
    assert compile_text(text, "gcc", "c11")[0] != 0
    text = (
        "#include <shmem.h>\nvoid f(shmem_ctx_t ctx, void *at) { shmem_put(ctx, at, at, 1, 0); }\n"
    )
    assert compile_text(text, "gcc", "c11")[0] != 0


# One compiler of each language, then the others.
EVERY_KIND = rest_slow([[*C_KINDS[:1], *CPP_KINDS[:1]], [*C_KINDS[1:], *CPP_KINDS[1:]]])


@pytest.mark.parametrize("kinds", EVERY_KIND, ids=["first", "others"])
@pytest.mark.parametrize("header", ["shmemx.h", "mpp/shmem.h", "mpp/shmemx.h"])
def test_each_header_of_the_specification_declares_the_calls(header, kinds):
    text = f"#include <{header}>\nint f(void) {{ return shmem_my_pe(); }}\n"
    for compiler, standard in kinds:
        assert compile_text(text, compiler, standard) == (0, ""), (header, compiler, standard)


FORMER_NAMES = """#include <shmemx.h>
void f(long *at, shmem_ctx_t ctx, uint64_t *signal) {
  shmemx_long_ibput(at, at, 1, 1, 1, 1, 0);
  shmemx_ctx_ibget32(ctx, at, at, 1, 1, 1, 1, 0);
  shmemx_ibput(at, at, 1, 1, 1, 1, 0);
  shmemx_ibget(ctx, at, at, 1, 1, 1, 1, 0);
  shmemx_long_sum_inscan(SHMEMX_TEAM_NODE, at, at, 1);
  shmemx_sum_exscan(SHMEM_TEAM_WORLD, at, at, 1);
  shmemx_signal_set(signal, 1, 0);
  shmemx_signal_add(ctx, signal, 1, 0);
  shmemx_ctx_signal_add(ctx, signal, 1, 0);
}
"""


@pytest.mark.parametrize("kinds", EVERY_KIND, ids=["first", "others"])
def test_calls_may_go_by_the_names_that_they_had_as_extensions(kinds):
    for compiler, standard in kinds:
        if standard == "c99":
            continue  # it has no generic names
        assert compile_text(FORMER_NAMES, compiler, standard) == (0, ""), (compiler, standard)


C_COMPLEX_IN_CPP = """#include <shmem.h>
template <class T> int all(shmem_team_t team, T *at) {
  return shmem_sum_reduce(team, at, at, 1) + shmem_prod_reduce(team, at, at, 1) + shmem_sum_inscan(team, at, at, 1) +
         shmem_sum_exscan(team, at, at, 1);
}
int f(double _Complex *d, float _Complex *s, std::complex<double> *cpp, long *sync) {
  shmem_complexd_sum_to_all(d, d, 1, 0, 0, 1, d, sync);
  return shmem_complexd_sum_reduce(SHMEM_TEAM_WORLD, d, d, 1) + shmem_complexf_prod_reduce(SHMEM_TEAM_WORLD, s, s, 1) +
         shmem_complexd_sum_reduce(SHMEM_TEAM_WORLD, cpp, cpp, 1) + all(SHMEM_TEAM_WORLD, d) + all(SHMEM_TEAM_WORLD, s);
}
"""


@pytest.mark.parametrize("compiler", rest_slow(compilers("g++", "clang++")))
def test_cpp_takes_the_complex_types_of_c_too(compiler):
    command = [
        compiler,
        "-std=gnu++17",
        "-x",
        "c++",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{HEADERS}",
        "-fsyntax-only",
        "-",
    ]
    if "clang" in compiler:
        command.insert(1, "-Wno-c99-extensions")
    done = subprocess.run(
        command, input=C_COMPLEX_IN_CPP, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_deprecated_calls_warn_where_asked():
    text = "#include <shmem.h>\nint f(void) { return _my_pe(); }\n"
    assert compile_text(text, "gcc", "c11") == (0, "")
    assert (
        "deprecated" in compile_text("#define TND_SHMEM_WARN_DEPRECATED\n" + text, "gcc", "c11")[1]
    )
