"""The attach map: setting, deleting, renaming, shifting; the original is never changed."""

from __future__ import annotations

from autosched.state.attach_map import AttachMap


def test_set_appends_and_moves() -> None:
    first = AttachMap().with_stage(1, 5, 2).with_stage(3, 5, 2)
    assert first.attached_at(5, 2) == (1, 3)
    moved = first.with_stage(1, 5, 0)
    assert moved.attached_at(5, 2) == (3,)
    assert moved.target_of(1) == (5, 0)
    assert first.attached_at(5, 2) == (1, 3)


def test_delete_drops_empty_lists() -> None:
    one = AttachMap().with_stage(1, 5, 2)
    none = one.without_stage(1)
    assert none.stage_to_iter == {}
    assert none.iter_to_stages == {}
    assert none.without_stage(1) is none


def test_rename_is_simultaneous_and_the_later_wins() -> None:
    start = AttachMap().with_stage(1, 5, 1).with_stage(2, 5, 2)
    shifted = start.renamed({(5, 1): (5, 2), (5, 2): (5, 3)})
    assert shifted.iter_to_stages == {(5, 2): (1,), (5, 3): (2,)}
    assert shifted.stage_to_iter == {1: (5, 2), 2: (5, 3)}
    merged = start.renamed({(5, 1): (5, 0), (5, 2): (5, 0)})
    assert merged.iter_to_stages == {(5, 0): (2,)}
    assert start.renamed({(7, 0): (7, 1)}) is start


def test_offset_shifts_stages_targets_and_members() -> None:
    start = AttachMap().with_stage(1, 5, 2).with_stage(6, 3, 0)
    moved = start.offset(3, 1)
    assert moved.stage_to_iter == {1: (6, 2), 7: (4, 0)}
    assert moved.iter_to_stages == {(6, 2): (1,), (4, 0): (7,)}
