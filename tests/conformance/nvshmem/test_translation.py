"""What tanada-nvcc makes of CUDA's words, and how it reads nvcc's options."""

import importlib.machinery
import importlib.util
import pathlib
import re

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[3] / "cmd/oshmem/tanada-nvcc.in"
loader = importlib.machinery.SourceFileLoader("tanada_nvcc", str(SOURCE))
tanada_nvcc = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("tanada_nvcc", loader)
)
loader.exec_module(tanada_nvcc)

KERNEL = "__global__ void k(int *a, int b) { a[threadIdx.x] = b; }\n"
TEMPLATE = "template <class T> __global__ void t(T *a) { }\n"


def translated(text):
    """The translation, with one blank for several."""
    return re.sub(r"\s+", " ", tanada_nvcc.translate(text))


def test_a_kernel_is_registered_after_its_body():
    text = translated(KERNEL)
    assert "__global__" not in text
    assert re.search(r"\} \[\[maybe_unused\]\] static .*kernel_address\(&k\);", text)
    assert "::tanada::simt::host::ids().thread.x" in text


def test_a_template_is_registered_where_its_address_is_taken():
    text = translated(TEMPLATE + "auto p = f((const void *)t<int>, (void*) t<float>);")
    assert (
        "f(::tanada::cuda::kernel_address(t<int>), ::tanada::cuda::kernel_address(t<float>))"
        in text
    )


def test_kernels_of_one_name_are_told_apart_by_their_parameters():
    text = translated(
        "__global__ void k(int *a);\n"
        + KERNEL
        + "__global__ void k(float a, int b = 2) {} void host() { k<<<1, 2>>>(f, 3); }"
    )
    assert "kernel_address(static_cast<void (*)(int *a, int b)>(&k))" in text
    assert "kernel_address(static_cast<void (*)(float a, int b )>(&k))" in text
    assert "call_deduced([](auto... values) { k(values...); }, f, 3)" in text


@pytest.mark.parametrize(
    "launch, call",
    [
        ("k<<<1, 2>>>(p, 3);", "::tanada::cuda::configured_launch(1, 2).call(k, p, 3);"),
        ("k<<<g(1), 2, 0, s>>>(p, 3);", "configured_launch(g(1), 2, 0, s).call(k, p, 3);"),
        ("n::k<<<1, 2>>>();", "configured_launch(1, 2).call(n::k);"),
        ("t<int><<<1, 2>>>(p);", "configured_launch(1, 2).call(t<int>, p);"),
        ("t<f<int>, 3><<<1, 2>>>(p);", "configured_launch(1, 2).call(t<f<int>, 3>, p);"),
        ("(*q)<<<1, 2>>>(p);", "configured_launch(1, 2).call((*q), p);"),
        (
            "t<<<1, 2>>>(p);",
            "configured_launch(1, 2).call_deduced([](auto... values) { t(values...); }, p);",
        ),
        ("k <<<1, 2>>> (p, a >> 3);", "configured_launch(1, 2).call(k, p, a >> 3);"),
    ],
)
def test_a_launch(launch, call):
    text = translated(f"{KERNEL}{TEMPLATE}void host() {{ {launch} }}")
    assert call.replace(" ", "") in text.replace(" ", "")


@pytest.mark.parametrize(
    "text",
    [
        'const char *s = "k<<<1, 2>>>(p)";',
        'auto s = R"x(k<<<1, 2>>>(p); __shared__ )" )x";',
        "int i = a << b, j = a >> b; f<g<h<int>>> x;",
        "char c = '\"'; char d = '<';",
    ],
)
def test_other_text_stays_as_it_is(text):
    assert tanada_nvcc.translate(text) == text


def test_a_launch_without_an_end_is_an_error():
    with pytest.raises(tanada_nvcc.Failure, match="has no end"):
        tanada_nvcc.translate("void host() { k<<<1, 2>>; }")


def test_variables_of_a_block():
    text = translated(
        "__global__ void k() { __shared__ float *a[4][2], b; static __shared__ S<int, 3> c; }"
    )
    assert "typedef float * tnd_type_a [ 4 ] [ 2 ];" in text
    assert "typedef float tnd_type_b ;" in text
    assert "typedef S < int , 3 > tnd_type_c ;" in text
    assert "tnd_type_b &b = *static_cast<tnd_type_b *>" in text


def test_dynamic_memory_of_a_block():
    text = translated("__global__ void k() { extern __shared__ double x[]; }")
    assert "double *const x = static_cast<double *>(::tanada::cuda::dynamic_shared());" in text
    assert "extern" not in text


def test_loops_of_device_code_let_others_run():
    step = "::tanada::cuda::loop_step(), ("
    text = translated("__device__ void f() { while (*p); do { g(); } while (h()); for (;;) i(); }")
    assert f"while ({step}*p));" in text and f"while ({step}h()));" in text
    assert f"for (;{step}true);) i();" in text
    unchanged = "void f() { while (*p); for (int i = 0; i < 3; i++) g(); }"
    assert tanada_nvcc.translate(unchanged) == unchanged


def test_headers_that_are_known_are_not_read():
    text = '# 1 "a/b.h" 1\nint f() { return "; }\n# 2 "c.cu" 2\n' + KERNEL
    result = tanada_nvcc.translate(text, lambda name: name.startswith("a/"))
    assert 'int f() { return "; }' in result and "kernel_address(&k)" in result


def test_options_of_nvcc():
    words = (
        "-arch=sm_90 -gencode arch=compute_90,code=sm_90 -rdc=true -Xcompiler -fPIC,-g -O2 -Ix a.cu"
    )
    command = tanada_nvcc.Command(
        [*words.split(), "-std=c++11", "-lnvshmem_host", "-dc", "-o", "a.o"]
    )
    assert command.sources == ["a.cu"] and command.output == "a.o" and command.stops == "-c"
    assert command.options == ["-fPIC", "-g", "-O2", "-Ix", "-std=c++17"]


def chosen_compiler(monkeypatch, *words, **environment):
    for name in ("TANADA_NVCC_CXX", "CXX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return tanada_nvcc.compiler(tanada_nvcc.Command([*words, "a.cu"]).compiler)


def test_the_compiler_is_that_of_the_environment_or_of_ccbin(monkeypatch, tmp_path):
    other = tmp_path / "g++"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert chosen_compiler(monkeypatch, f"-ccbin={other}", CXX="c++") == [str(other)]
    assert chosen_compiler(monkeypatch, "-ccbin", str(tmp_path)) == [str(other)]
    assert chosen_compiler(monkeypatch, f"-ccbin={other}", TANADA_NVCC_CXX="g++ -m64") == [
        "g++",
        "-m64",
    ]
    assert chosen_compiler(monkeypatch, CXX="g++") == ["g++"]
    with pytest.raises(SystemExit, match="-ccbin missing-c.*no such compiler"):
        chosen_compiler(monkeypatch, "-ccbin=missing-c++")


def test_kernels_are_not_compiled_to_modules():
    with pytest.raises(SystemExit, match="--ptx: there are no modules"):
        tanada_nvcc.Command(["--ptx", "a.cu"])
