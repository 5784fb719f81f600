"""A column of an Arrow file, scanned inside kernels."""

import importlib.util
import pathlib
import random
import struct

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "examples/columns/columns.py"


def results(output):
    return [float(line.split(": ")[1]) for line in output.splitlines()]


# Pieces as they lie in an Arrow file, without its footer.
def test_pieces_and_bitmaps(program, tmp_path):
    numbers = [random.Random(1).uniform(-1, 1) for _ in range(5001)]
    valid = [random.Random(2).random() < 0.7 for _ in numbers]
    path = tmp_path / "pieces"
    bitmap = bytearray(632)
    for i, is_valid in enumerate(valid):
        bitmap[i // 8] |= is_valid << i % 8
    path.write_bytes(b"x" * 64 + struct.pack("<5001d", *numbers) + bytes(bitmap))
    run = program("columns").pass_run
    count, total, above = results(run(path, 0.25, "64:5001"))
    assert (count, above) == (5001, sum(number > 0.25 for number in numbers))
    assert total == pytest.approx(sum(numbers))
    chosen = [number for number, is_valid in zip(numbers, valid) if is_valid]
    count, total, above = results(run(path, 0.25, f"64:5001:{64 + 5001 * 8}"))
    assert (count, above) == (len(chosen), sum(number > 0.25 for number in chosen))
    assert total == pytest.approx(sum(chosen))
    count, _, _ = results(run(path, 0, "64:10", "144:1", "64:2048"))
    assert count == 10 + 1 + 2048


def test_bad_arguments_are_refused(program, tmp_path):
    assert "usage" in program("columns").fail_run(tmp_path / "absent")
    assert "OFFSET:COUNT" in program("columns").fail_run(tmp_path / "absent", 0, "a")
    assert "ENOENT" in program("columns").fail_run(tmp_path / "absent", 0, "0:1")


def test_a_column_of_an_arrow_file(program, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    feather = pytest.importorskip("pyarrow.feather")
    spec = importlib.util.spec_from_file_location("columns", SCRIPT)
    columns = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(columns)
    random_numbers = random.Random(3)
    numbers = [random_numbers.uniform(-1, 1) for _ in range(20_000)]
    table = arrow.table(
        {
            "key": list(range(20_000)),
            "full": numbers,
            "some": [None if i % 7 == 0 else number for i, number in enumerate(numbers)],
        }
    )
    path = str(tmp_path / "table.arrow")
    feather.write_feather(table, path, compression="uncompressed", chunksize=3000)
    assert len(list(columns.pieces(path, "some"))) == 7
    for column in ("full", "some"):
        found = columns.scan(program("columns").path, path, column, 0.5)
        right = columns.expected(path, column, 0.5)
        assert (found[0], found[2]) == (right[0], right[2])
        assert found[1] == pytest.approx(right[1])
    with pytest.raises(ValueError, match="double"):
        list(columns.pieces(path, "key"))
    feather.write_feather(table, path, compression="lz4")
    with pytest.raises(ValueError, match="compressed"):
        list(columns.pieces(path, "full"))
