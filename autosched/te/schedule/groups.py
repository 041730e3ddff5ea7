"""Stage groups: subgraphs whose stages are computed together at one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.te.operations.graph import sub_graph
from autosched.te.operations.operation import Operation, PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.refusal import check_tensor, refusal
from autosched.te.schedule.stage import Stage
from autosched.tir.given import flag

if TYPE_CHECKING:
    from autosched.te.schedule.schedule import Schedule


def create_group(
    schedule: Schedule,
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    include_inputs: bool = False,
) -> Stage:
    """A group of the stages between `inputs` and `outputs`; it can be attached like a stage.

    A member that is not attached itself is computed where the group is attached. Members can be
    attached only to each other or to stages of groups inside. Placeholders are never members.

    before:
        realize(B[0:16], float32, "")
        for i in range(16):
            B[i] = A[i] + 1.0
        for j in range(16):
            C[j] = B[j] * 2.0
    after g = s.create_group(outputs=B, inputs=A, include_inputs=False); g.compute_at(s[C], j):
        for j in range(16):
            realize(B[j:j + 1], float32, "", shape=(16,))
            B[j] = A[j] + 1.0
            C[j] = B[j] * 2.0
    """
    ends, starts = (
        [schedule.current_tensor(t) for t in _tensors(given)] for given in (outputs, inputs)
    )
    between = sub_graph(ends, starts, flag("create_group: include_inputs", include_inputs))
    members = [schedule[op] for op in between if not isinstance(op, PlaceholderOp)]
    if not members:
        raise refusal(
            "create_group",
            ends[0].op.name if ends else "none",
            None,
            "no path leads from the inputs to it",
        )
    parent = _common_group(members)
    children = list(dict.fromkeys(_child_of(parent, member) for member in members))
    for stage in schedule.stages:
        if stage not in members and _child_of(parent, stage) in children:
            raise refusal(
                "create_group",
                stage,
                None,
                "it belongs to a group of which other stages would be in the new group",
            )
    group = Stage(Operation("group", "", {}))
    group.group = parent
    group.num_child_stages = len(children)
    if parent is not None:
        parent.num_child_stages += 1 - len(children)
    for child in children:
        child.group = group
    schedule.groups.append(group)
    return group


def _child_of(parent: Stage | None, stage: Stage) -> Stage:
    """The direct child of `parent` that is `stage` or contains it."""
    while stage.group is not parent and stage.group is not None:
        stage = stage.group
    return stage


def _common_group(members: Sequence[Stage]) -> Stage | None:
    """The innermost group that contains all members; None when only the whole schedule does."""

    def chain(stage: Stage) -> list[Stage]:
        groups: list[Stage] = []
        group = stage.group
        while group is not None:
            groups.append(group)
            group = group.group
        return groups

    common = chain(members[0])
    for member in members[1:]:
        others = chain(member)
        common = [group for group in common if group in others]
    return common[0] if common else None


def _tensors(given: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    tensors = given if isinstance(given, Sequence) else [given]
    for tensor in tensors:
        check_tensor("create_group", tensor)
    return tensors
