"""tanada render: pictures and animations of arrays, read back as by a viewer."""

import numpy
import pytest

Image = pytest.importorskip("PIL.Image")  # a GPU machine may lack it; it is in
# tools/requirements.txt

SIDE = 20  # pixels around the plane


@pytest.fixture
def render(tanada):
    return lambda *words: tanada("render", *words)


def passed(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def color_at(image, x, y):
    """Mean colour around a point of the plane, given as fractions of its size, y upwards."""
    width, height = image.width - 2 * SIDE - 130, image.height - 2 * SIDE
    middle = SIDE + x * width, SIDE + (1 - y) * height
    box = [int(at + by) for by in (-2, 3) for at in middle]
    return numpy.asarray(image.convert("RGB").crop(box)).reshape(-1, 3).mean(axis=0)


def is_red(color):
    return color[0] > color[2] + 40


def is_blue(color):
    return color[2] > color[0] + 40


def wedge(shape):
    """+1 in the corner of low indices along every axis, else -1."""
    grids = numpy.meshgrid(*(numpy.arange(n) < n / 2 for n in shape), indexing="ij")
    return numpy.where(numpy.logical_and.reduce(grids), 1, -1).astype("<f4")


@pytest.mark.parametrize("axis, plane", [("z", 4), ("y", 5), ("x", 6)])
@pytest.mark.parametrize("kind", ["<f4", "<f8"])
def test_planes_of_every_axis(render, tmp_path, axis, plane, kind):
    """The array has different extents along z, y and x; the corner is low along both axes of the
    picture.
    """
    numpy.save(tmp_path / "a.npy", wedge((16, 20, 24)).astype(kind))
    passed(render("a.npy", "--axis", axis, "--index", plane, "--size", 240, "-o", "a.png"))
    image = Image.open(tmp_path / "a.png")
    extents = {"z": (24, 20), "y": (24, 16), "x": (20, 16)}[axis]
    ratio = (image.width - 2 * SIDE - 130) / (image.height - 2 * SIDE)
    assert ratio == pytest.approx(extents[0] / extents[1], abs=0.02)
    assert is_red(color_at(image, 0.25, 0.25))
    assert all(
        is_blue(color_at(image, x, y)) for x, y in ((0.75, 0.25), (0.25, 0.75), (0.75, 0.75))
    )
    passed(
        render("a.npy", "--axis", axis, "--index", {"z": 15, "y": 19, "x": 23}[axis], "-o", "a.png")
    )
    assert is_blue(color_at(Image.open(tmp_path / "a.png"), 0.25, 0.25))


def test_an_animation_has_a_frame_for_each_and_one_scale(render, tmp_path):
    for step in range(5):
        numpy.save(tmp_path / f"ez-{step:06d}.npy", wedge((8, 8, 8)) * (step + 1) / 5)
        numpy.save(tmp_path / f"hy-{step:06d}.npy", wedge((8, 8, 8)))
    output = passed(
        render(
            tmp_path,
            "--component",
            "ez",
            "--size",
            160,
            "--delay",
            120,
            "-o",
            "out.gif",
            "--index",
            0,
        )
    )
    assert "5 frames" in output and "ez-000004.npy" in output
    with Image.open(tmp_path / "out.gif") as film:
        assert film.n_frames == 5 and film.info["loop"] == 0 and film.info["duration"] == 120
        brightness = []
        for frame in range(5):
            film.seek(frame)
            assert is_red(color_at(film, 0.25, 0.25)) or frame == 0
            brightness.append(color_at(film, 0.25, 0.25).sum())
    assert brightness == sorted(brightness) and brightness[4] > 2 * brightness[0]
    assert oct((tmp_path / "out.gif").stat().st_mode & 0o444) == "0o444"


def test_gif_colors_are_the_png_s(render, tmp_path):
    numpy.save(tmp_path / "a.npy", numpy.linspace(-1, 1, 64 * 64, dtype="<f4").reshape(64, 64))
    passed(render("a.npy", "-o", "a.png"))
    passed(render("a.npy", "-o", "a.gif"))
    one, other = (
        numpy.asarray(Image.open(tmp_path / name).convert("RGB")).astype(int)
        for name in ("a.png", "a.gif")
    )
    assert one.shape == other.shape and abs(one - other).max() <= 12


def test_zeros_and_numbers_that_are_none(render, tmp_path):
    field = numpy.zeros((4, 4, 4), "<f4")
    numpy.save(tmp_path / "zero.npy", field)
    passed(render("zero.npy", "-o", "a.png"))
    field[2, 1, 1] = numpy.nan
    field[2, 3, 3] = numpy.inf
    numpy.save(tmp_path / "odd.npy", field)
    passed(render("odd.npy", "-o", "a.png"))
    assert Image.open(tmp_path / "a.png").width > 100


@pytest.mark.parametrize(
    "make, words, why",
    [
        (lambda path: path.write_bytes(b"words" * 100), [], "is not a NumPy array"),
        (lambda path: numpy.save(path, numpy.zeros((4, 4, 4), "<i4")), [], "little-endian floats"),
        (lambda path: numpy.save(path, numpy.zeros((4, 4, 4), "<f4", "F") + 0), [], "C order"),
        (lambda path: numpy.save(path, numpy.zeros(4, "<f4")), [], "1 dimensions"),
        (
            lambda path: numpy.save(path, numpy.zeros((4, 4, 4), "<f4")),
            ["--index", 4],
            "has 4 planes",
        ),
        (lambda path: path.write_bytes(b""), [], "is not a NumPy array"),
    ],
    ids=["words", "integers", "fortran", "line", "index", "empty"],
)
def test_what_cannot_be_drawn(render, tmp_path, make, words, why):
    make(tmp_path / "a.npy")
    done = render("a.npy", *words, "-o", "a.png")
    assert done.returncode == 1 and why in done.stderr and not (tmp_path / "a.png").exists()


def test_arrays_that_are_cut(render, tmp_path):
    numpy.save(tmp_path / "a.npy", wedge((8, 8, 8)))
    whole = (tmp_path / "a.npy").read_bytes()
    for size in (3, 9, 11, 50, 127, 128, len(whole) - 1):
        (tmp_path / "a.npy").write_bytes(whole[:size])
        done = render("a.npy", "-o", "a.png")
        assert done.returncode == 1 and "a.npy" in done.stderr, size


def test_wrong_lines(render, tmp_path):
    numpy.save(tmp_path / "a-1.npy", wedge((8, 8, 8)))
    numpy.save(tmp_path / "a-2.npy", wedge((8, 8, 8)))
    for words, why in (
        ([tmp_path, "-o", "a.png"], "2 snapshots"),
        (["absent", "-o", "a.png"], "is not a snapshot"),
        (["a-1.npy", "-o", "a.jpg"], "must end with"),
        (["gfarm:///a", "-o", "a.png"], "use pool://"),
        ([tmp_path, "--component", "ez", "-o", "a.gif"], "no snapshot of ez"),
        (["a-1.npy", "-o", "absent/a.png"], "absent/a.png"),
        (["a-1.npy", "-o", "absent/a.gif"], "absent/a.gif"),
    ):
        done = render(*words)
        assert done.returncode == 1 and why in done.stderr, words
    assert (
        render("a-1.npy").returncode == 2
        and render("a-1.npy", "-o", "a.png", "--axis", "w").returncode == 2
    )


def test_frames_of_two_sizes_leave_no_file(render, tmp_path):
    numpy.save(tmp_path / "a-1.npy", wedge((8, 8, 8)))
    numpy.save(tmp_path / "a-2.npy", wedge((8, 8, 9)))
    done = render(tmp_path, "-o", "a.gif")
    assert (
        done.returncode == 1
        and "differ in size" in done.stderr
        and not (tmp_path / "a.gif").exists()
    )


def test_component_and_step_stand_in_the_picture(render, tmp_path):
    """Above and below the bar at the right; an array without such a name has neither."""
    for name in ("ez-000120", "plain"):
        numpy.save(tmp_path / f"{name}.npy", wedge((8, 8)))
        passed(render(f"{name}.npy", "--size", 240, "-o", f"{name}.png"))

    def letter_pixels(name, top, bottom):
        image = Image.open(tmp_path / f"{name}.png").convert("L")
        left = image.width - 130
        return int((numpy.asarray(image)[top:bottom, left:] > 150).sum())

    height = Image.open(tmp_path / "plain.png").height
    for top, bottom in ((20, 45), (height - 20, height)):
        assert letter_pixels("ez-000120", top, bottom) > 20
        assert letter_pixels("plain", top, bottom) == 0


@pytest.mark.parametrize("suffix", ["png", "gif"])
def test_a_full_disk_is_reported(render, tmp_path, suffix):
    numpy.save(tmp_path / "a.npy", wedge((64, 64)))
    (tmp_path / f"out.{suffix}").symlink_to("/dev/full")
    done = render("a.npy", "-o", f"out.{suffix}")
    assert done.returncode == 1 and f"cannot write out.{suffix}" in done.stderr, done.stderr
