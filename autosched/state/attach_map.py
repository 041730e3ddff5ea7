"""Which stage is computed at which iterator of which other stage."""

from __future__ import annotations

from collections.abc import Mapping

IterKey = tuple[int, int]


class AttachMap:
    """`stage -> (target stage, iterator index)` and its inverse; immutable.

    The inverse keeps the order in which the stages were attached, which is the order in which they
    are printed.
    """

    __slots__ = ("iter_to_stages", "stage_to_iter")

    def __init__(
        self,
        stage_to_iter: Mapping[int, IterKey] | None = None,
        iter_to_stages: Mapping[IterKey, tuple[int, ...]] | None = None,
    ) -> None:
        self.stage_to_iter = stage_to_iter or {}
        self.iter_to_stages = iter_to_stages or {}

    def attached_at(self, stage_id: int, iter_id: int) -> tuple[int, ...]:
        """The stages attached at an iterator, in the order they were attached."""
        return self.iter_to_stages.get((stage_id, iter_id), ())

    def target_of(self, stage_id: int) -> IterKey | None:
        """The target stage and iterator that a stage is attached at; None without one."""
        return self.stage_to_iter.get(stage_id)

    def with_stage(self, stage_id: int, target_stage: int, target_iter: int) -> AttachMap:
        """The map with `stage_id` moved to an iterator of `target_stage`."""
        removed = self.without_stage(stage_id)
        forward, inverse = dict(removed.stage_to_iter), dict(removed.iter_to_stages)
        key = (target_stage, target_iter)
        forward[stage_id] = key
        inverse[key] = (*inverse.get(key, ()), stage_id)
        return AttachMap(forward, inverse)

    def without_stage(self, stage_id: int) -> AttachMap:
        """The map without `stage_id`; the same object when it is not attached."""
        key = self.stage_to_iter.get(stage_id)
        if key is None:
            return self
        forward, inverse = dict(self.stage_to_iter), dict(self.iter_to_stages)
        del forward[stage_id]
        rest = tuple(s for s in inverse[key] if s != stage_id)
        if rest:
            inverse[key] = rest
        else:
            del inverse[key]
        return AttachMap(forward, inverse)

    def renamed(self, moves: Mapping[IterKey, IterKey]) -> AttachMap:
        """The map after iterators changed their keys, old to new, all at once.

        If two old keys have the same new key, the later one replaces the earlier one.
        """
        if not self.iter_to_stages or not any(
            old in self.iter_to_stages and old != new for old, new in moves.items()
        ):
            return self
        forward, inverse = dict(self.stage_to_iter), dict(self.iter_to_stages)
        inserted: list[tuple[IterKey, tuple[int, ...]]] = []
        for old, new in moves.items():
            stages = self.iter_to_stages.get(old)
            if stages is None:
                continue
            for stage_id in stages:
                forward[stage_id] = new
            inverse.pop(old, None)
            inserted.append((new, stages))
        inverse.update(inserted)
        return AttachMap(forward, inverse)

    def offset(self, start: int, count: int) -> AttachMap:
        """The map after `count` stages were inserted at `start`."""
        if not self.stage_to_iter:
            return self

        def moved(stage_id: int) -> int:
            return stage_id + count if stage_id >= start else stage_id

        return AttachMap(
            {moved(s): (moved(t), i) for s, (t, i) in self.stage_to_iter.items()},
            {
                (moved(t), i): tuple(map(moved, stages))
                for (t, i), stages in self.iter_to_stages.items()
            },
        )
