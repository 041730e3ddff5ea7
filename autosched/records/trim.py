"""Cut a record file down to its best candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched import arguments
from autosched.arguments import PathLike
from autosched.errors import ConfigError
from autosched.measure.records import Record
from autosched.measure.standing import best_of, is_race
from autosched.measure.workload_keys import WorkloadKeys
from autosched.records.ranking import Place
from autosched.records.standings import Group, Standings, ranked
from autosched.records.writing import RecordWriter, Written, require_records, writing
from autosched.user_warning import Tell, warn


def trim(
    source: PathLike,
    output: PathLike,
    *,
    best: int,
    force: bool = False,
    keys: WorkloadKeys | None = None,
    warning: Tell = warn,
) -> Written:
    """Write the `best` best candidates of each task and machine to `output`, in their order.

        autosched.records.trim("mm.jsonl", "small.jsonl", best=10)

    The best of the file stays the best: the record of a race is kept with its candidate's earlier
    one, and a candidate is left out if it would become the best because other records are missing.
    Failures and impossible times are left out. A later run on `output` may measure candidates again
    that are not in it. Raises as `merge`.
    """
    path = arguments.file_path("source", source)
    target = arguments.file_path("output", output)
    most = arguments.integer("best", best, 1)
    with writing(target, [path], force=force) as file:
        writer = RecordWriter(file)
        found = Standings(most)
        contents = found.read(path, warning, keys)
        require_records([path], [contents], found.records)
        groups = [group for task in found.tasks.values() for group in task.groups.values()]
        numbered = sorted(
            (number, record) for group in groups for number, record in _kept(group, most).items()
        )
        if not numbered:
            raise ConfigError(f"{path}: none of its records is valid; nothing was written")
        for _, record in numbered:
            writer.add(record, contents.environments)
    return Written(writer.written, found.records)


def _kept(group: Group, most: int) -> dict[int, Record]:
    """The records of a group to keep, by their numbers."""
    places = ranked(group, most)
    found = {p.number: p.record for p in _with_first(group, places)}
    if not places or _best(found) is places[0].record:
        return found
    kept = places[:1]
    for place in places[1:]:
        found = {p.number: p.record for p in _with_first(group, [*kept, place])}
        if _best(found) is places[0].record:
            kept.append(place)
    return {p.number: p.record for p in _with_first(group, kept)}


def _with_first(group: Group, places: Sequence[Place]) -> list[Place]:
    """The places, after the first record of each candidate whose place is a record of a race."""
    first = [group.ranking.first_of(place) for place in places if is_race(place.record)]
    return [*first, *places]


def _best(found: Mapping[int, Record]) -> Record | None:
    return best_of(found[number] for number in sorted(found))
