"""Device memory as source and target of the pool: arrays of CuPy, Numba and PyTorch, as installed."""

import shutil
import subprocess

import pytest
from package import raises

numpy = pytest.importorskip("numpy")

GPU = (
    shutil.which("nvidia-smi")
    and subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode == 0
)
pytestmark = pytest.mark.skipif(not GPU, reason="no GPU here")


def cupy_arrays():
    cupy = pytest.importorskip("cupy")
    return cupy.asarray, cupy.asnumpy


def numba_arrays():
    cuda = pytest.importorskip("numba.cuda")
    return cuda.to_device, lambda array: array.copy_to_host()


def torch_arrays():
    torch = pytest.importorskip("torch")
    return lambda array: torch.from_numpy(array).cuda(), lambda tensor: tensor.cpu().numpy()


@pytest.fixture(params=[cupy_arrays, numba_arrays, torch_arrays], ids=["cupy", "numba", "torch"])
def arrays(request):
    return request.param()


def test_device_memory_goes_both_ways(arrays, pool):
    to_device, to_host = arrays
    content = numpy.random.default_rng(1).random((300, 1000))
    pool.put("a", to_device(content), checksum="crc32c")
    assert pool.get("a", verify=True) == content.tobytes()
    target = to_device(numpy.zeros_like(content))
    assert pool.get_into("a", target) == content.nbytes and (to_host(target) == content).all()
    with pool.create("b") as made:
        made.write(to_device(content), 8)
        made.commit()
        assert made.read(content.nbytes, 8) == content.tobytes()
        target = to_device(numpy.zeros(1000))
        assert made.read_into(target, 8) == 8000 and (to_host(target) == content[0]).all()


def test_boxes_of_device_memory(arrays, pool):
    to_device, to_host = arrays
    content = numpy.arange(60.0).reshape(3, 4, 5)
    device = to_device(content)
    with pool.create("a", content.nbytes) as made:
        made.write_box(device[:, 1:3, 1:4], (5 + 1) * 8, [160, 40])
        made.commit()
        expected = numpy.zeros_like(content)
        expected[:, 1:3, 1:4] = content[:, 1:3, 1:4]
        assert made.read() == expected.tobytes()
        target = to_device(numpy.zeros_like(content))
        made.read_box(target[:, 1:3, 1:4], (5 + 1) * 8, [160, 40])
        assert (to_host(target) == expected).all()


def test_a_stream_is_waited_for(pool):
    """The pool gets the data that a running kernel will have written."""
    cupy = pytest.importorskip("cupy")
    late = cupy.RawKernel(
        r"""extern "C" __global__ void late(float *out, int count) {
        for (int i = 0; i < 300; i++) __nanosleep(1000000);
        for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = i;
    }""",
        "late",
    )
    out = cupy.zeros(100_000, "f4")
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True):
        late((1,), (256,), (out, out.size))
        pool.put("a", out)
    assert (numpy.frombuffer(pool.get("a"), "f4") == numpy.arange(100_000)).all()


def test_requests_take_host_memory_only(tanada, arrays, pool):
    device = arrays[0](numpy.zeros(1000))
    with pytest.raises(TypeError, match="host memory"):
        pool.post_put("a", device)
    pool.put("a", b"1" * 8001)
    with raises(tanada, "ERANGE"):
        pool.get_into("a", device)
