"""Files of equal rows: what is appended is read, what was cut off is left out, damage is one sentence."""

import numpy as np
import pytest

from trajens.errors import InputError
from trajens.storage.tables import Rows

FLOATS = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
TABLE = np.zeros((3, 5), [("epoch", "<i8"), ("loss", "<f8")])
TABLE["epoch"], TABLE["loss"] = np.arange(15).reshape(3, 5), np.linspace(0.0, 1.0, 15).reshape(3, 5)
KINDS = {"floats": FLOATS, "table": TABLE, "bytes": np.array([[7], [255]], np.uint8)}


@pytest.fixture
def rows(tmp_path):
    return Rows(tmp_path / "rows.bin")


def written(rows, values):
    for row in values:
        rows.append(row)
    return rows


def assert_reads(rows, values):
    read = rows.read()
    assert read.dtype == values.dtype
    np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS.keys())
def test_rows_are_read_as_they_were_appended(rows, values):
    for count, row in enumerate(values, 1):
        rows.append(row)
        assert_reads(Rows(rows.file), values[:count])


def test_rows_that_are_not_contiguous_are_written_in_order(rows):
    turned = FLOATS.transpose(0, 2, 1)
    assert_reads(written(rows, turned), turned)


def test_rows_are_mapped_and_not_loaded(rows):
    read = written(rows, FLOATS).read()
    assert isinstance(read, np.memmap)
    assert not read.flags.writeable


def test_bytes_that_were_cut_off_at_the_end_are_left_out(rows):
    whole = written(rows, FLOATS).file.read_bytes()
    size = FLOATS[0].nbytes
    for lost in range(1, size + 1):
        rows.file.write_bytes(whole[:-lost])
        assert_reads(rows, FLOATS[:3])
    rows.file.write_bytes(whole[: len(whole) - 4 * size])
    assert rows.read().shape == (0, 2, 3)


@pytest.mark.parametrize("extra", [b"", b"abc"], ids=["whole", "cut off"])
def test_cut_leaves_the_first_rows_and_appending_goes_on_there(rows, extra):
    written(rows, FLOATS)
    with rows.file.open("ab") as stream:
        stream.write(extra)
    rows.cut(2)
    assert_reads(rows, FLOATS[:2])
    assert_reads(written(rows, FLOATS[3:]), FLOATS[[0, 1, 3]])


def test_after_all_rows_are_cut_others_may_follow(rows):
    written(rows, FLOATS).cut(0)
    assert_reads(written(rows, TABLE), TABLE)


def test_cutting_what_is_not_there_makes_no_file(rows):
    rows.cut(0)
    rows.cut(3)
    assert not rows.file.exists()


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff\xfe\n",
        b"text\n",
        b"[]\n",
        b'{"shape": [2, 3]}\n',
        b'{"shape": [2, 3], "dtype": "<f4"}',
        b'{"shape": [2, 3], "dtype": "<f4',
        b'{"shape": [2, 3], "dtype": "O"}\n',
        b'{"shape": [2, 3], "dtype": "no type"}\n',
        b'{"shape": "two", "dtype": "<f4"}\n',
        b'{"shape": [2, 3], "dtype": [["loss"]]}\n',
        b'{"shape": [-2, 3], "dtype": "<f4"}\n',
    ],
)
def test_a_damaged_header_is_one_sentence(rows, header):
    rows.file.write_bytes(header + FLOATS.tobytes() * (header.endswith(b"\n")))
    for use in (rows.read, lambda: rows.cut(1)):
        with pytest.raises(InputError, match="must begin with a line that says what its rows are") as caught:
            use()
        assert "copy." in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_sentence(rows):
    with pytest.raises(InputError, match="must begin with a line"):
        rows.read()
