"""Scan a column of an Arrow file by kernels, and compare the result with pyarrow's.

usage: columns.py PROGRAM FILE COLUMN ABOVE

PROGRAM is columns, or columns_cuda for a GPU. FILE is an Arrow IPC file (Feather version 2) that is
not compressed, and COLUMN one of doubles. The footer and the headers of the record batches say
where the values lie. pyarrow reads them; the kernels only read values.
"""

import math
import subprocess
import sys

import pyarrow
import pyarrow.compute


def pieces(path, column):
    """OFFSET:COUNT[:BITMAP] of each record batch: addresses within the mapped file."""
    with pyarrow.memory_map(path) as file:
        whole = file.read_buffer(file.size())
        reader = pyarrow.ipc.open_file(whole)
        for i in range(reader.num_record_batches):
            array = reader.get_batch(i).column(column)
            if array.type != pyarrow.float64():
                raise ValueError(f"{column} is of type {array.type}; it must be double")
            if len(array) == 0:
                continue
            bitmap, values = array.buffers()
            offset = values.address - whole.address
            if not 0 <= offset < whole.size:
                raise ValueError(f"{path} is compressed")
            text = f"{offset + 8 * array.offset}:{len(array)}"
            if array.null_count != 0:
                text += f":{bitmap.address - whole.address}"
            yield text


def scan(program, path, column, above):
    """The three results of the kernels."""
    command = [program, path, repr(above), *pieces(path, column)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    results = dict(line.split(": ") for line in done.stdout.splitlines())
    return int(results["values"]), float(results["sum"]), int(results["above"])


def expected(path, column, above):
    """The same by pyarrow."""
    with pyarrow.memory_map(path) as file:
        values = pyarrow.ipc.open_file(file).read_all().column(column)
        larger = pyarrow.compute.sum(pyarrow.compute.greater(values, above)).as_py()
        return len(values) - values.null_count, pyarrow.compute.sum(values).as_py(), larger


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    program, path, column, above = *sys.argv[1:4], float(sys.argv[4])
    count, total, larger = scan(program, path, column, above)
    print(f"{count} values, sum {total:.17g}, {larger} above {above}")
    right_count, right_total, right_larger = expected(path, column, above)
    if (count, larger) != (right_count, right_larger) or not math.isclose(total, right_total):
        sys.exit(f"pyarrow: {right_count} values, sum {right_total:.17g}, {right_larger} above")


if __name__ == "__main__":
    main()
