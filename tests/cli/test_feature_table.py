"""The table of features fits the terminal and leaves out what is 0 everywhere."""

from autosched.cli.feature_table import feature_table

GROUPS = {"sizes": ("bytes", "unused"), "loops": ("number_of_loops",)}
BUFFERS = ["C", "D", "a_rather_long_buffer.local"]
ROWS = [[10.0, 0, 3.0], [0.0, 0, 2.0], [1.25, 0, 1.0]]


def test_a_wide_terminal_holds_all_buffers() -> None:
    lines = feature_table(GROUPS, BUFFERS, ROWS, width=100).splitlines()
    assert lines[0].split()[:3] == ["sizes", "C", "D"]
    assert lines[0].endswith("buffer.local")
    assert lines[1].split() == ["bytes", "10", "0", "1.25"]
    assert lines[3].split() == ["number_of_loops", "3", "2", "1"]
    assert len({len(line) for line in lines}) == 1


def test_a_narrow_one_holds_them_in_parts() -> None:
    parts = feature_table(GROUPS, BUFFERS, ROWS, width=40).split("\n\n")
    assert len(parts) == 3
    assert all(len(line) <= 40 for part in parts for line in part.splitlines())
    assert "number_of_loops" in parts[2]
