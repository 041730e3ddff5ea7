"""Failures that differ in numbers and quoted names are one group, the largest first."""

from autosched.measure.failure_groups import FailureGroups
from autosched.measure.result import Failure


def test_details_do_not_make_another_group() -> None:
    groups = FailureGroups()
    for index, (stage, message) in enumerate(
        [
            ("build", "stage 'C': 3 loops"),
            ("run", "a note\ncell 0x7f of 'A' is 1e-3"),
            ("run", "another note\ncell 0x80 of 'B' is -2"),
            ("build", "stage 'C': 3 stores"),
        ]
    ):
        groups.add(index, Failure(stage, "crash", message))
    found = [(group.index, group.records) for group in groups.ordered]
    assert found == [(1, 2), (0, 1), (3, 1)]
