"""The layouts of points by name: parts, point names, bones, left/right, and the maps between them.

An engine brings another by naming it in its `EngineInfo`; another package may also name one by an
entry point of the group `posemill.skeletons`, which is found without loading the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from posemill import plugins
from posemill.errors import PosemillError
from posemill.skeletons.layouts import FACE_68_OF_468, LAYOUTS, build_skeleton
from posemill.skeletons.layouts import WORLD_LAYOUT as WORLD_LAYOUT
from posemill.skeletons.layouts import Bone as Bone
from posemill.skeletons.layouts import Part as Part
from posemill.skeletons.layouts import Skeleton as Skeleton
from posemill.terminal import warn_once

SKELETON_NAMES = tuple(LAYOUTS)
_SHORT_NAMES = {name.partition("-")[2]: name for name in SKELETON_NAMES if "holistic" in name}


@cache
def get_skeleton(name: str) -> Skeleton:
    """Return the skeleton of that name: one of ours (`SKELETON_NAMES`), or one an engine brings."""
    if name in LAYOUTS:
        return build_skeleton(name, LAYOUTS[name])
    if name in plugins.outside("skeleton"):
        found = plugins.load("skeleton", {}, name)
        if not isinstance(found, Skeleton) or found.name != name:
            raise ValueError(f"the entry point of skeleton {name!r} is {str(found)[:80]!r}")
        return found
    for skeleton in _skeletons_of_engines():
        if skeleton.name == name:
            return skeleton
    known = skeleton_names()
    hint = plugins.hint(name, known)
    raise ValueError(f"unknown skeleton {name[:80]!r}; known: {', '.join(known)}{hint}")


def full_name(name: str) -> str:
    """Return the name of a skeleton; of those of Holistic the number of points will do."""
    found = _SHORT_NAMES.get(name, name)
    if not is_skeleton(found):
        raise plugins.unknown("skeleton", name, [*_SHORT_NAMES, *skeleton_names()])
    return found


def guess_skeleton(num_points: int, where: object) -> str | None:
    """Return the one skeleton of ours with so many points, said to be a guess; None without."""
    found = [name for name in SKELETON_NAMES if get_skeleton(name).num_points == num_points]
    if len(found) != 1:
        return None
    warn_once(
        f"{where} does not name its skeleton; by its number of points it is read as {found[0]}"
    )
    return found[0]


def skeleton_names() -> list[str]:
    """Return the names of our skeletons and of those that other packages name."""
    return [*SKELETON_NAMES, *plugins.outside("skeleton")]


def is_skeleton(name: object) -> bool:
    """Return whether `get_skeleton` knows a name, whatever a file gives for one."""
    try:
        return isinstance(name, str) and bool(get_skeleton(name))
    except ValueError:
        return False


def _skeletons_of_engines() -> Iterator[Skeleton]:
    """Yield the skeletons that engines declare as their own; imports the engines' modules."""
    table = import_module("posemill.estimators").ESTIMATORS
    for name in plugins.names_of("engine", table):
        try:
            info = getattr(plugins.load("engine", table, name), "info", None)
        except PosemillError:  # an engine that cannot be imported here has its own message
            continue
        yield from (each for each in getattr(info, "skeletons", ()) if isinstance(each, Skeleton))


# Points of the face in the skeletons that do not have 68 of them.
_DENSE_FACES = {"holistic-543": 468, "holistic-553": 478, "face-468": 468, "face-478": 478}
# Points that are the mean of others, or go by another name in the 33 of Holistic. Small toes have
# no source.
_MADE_OF = {
    "neck": ("left_shoulder", "right_shoulder"),
    "hip": ("left_hip", "right_hip"),
    "left_big_toe": ("left_foot_index",),
    "right_big_toe": ("right_foot_index",),
}


@cache
def point_map(source_name: str, target_name: str) -> tuple[tuple[int, ...], ...]:
    """Return, for each point of the target, the source points whose mean it is (empty: none).

    Points of the same name are the same point; neck and hip are the means of shoulders and hips;
    the 68 face points are picked from the 468.
    """
    source, target = get_skeleton(source_name), get_skeleton(target_name)
    where = {name: index for index, name in enumerate(source.point_names)}
    known, wanted = (_DENSE_FACES.get(name, 68) for name in (source_name, target_name))
    if known < wanted:
        raise ValueError(
            f"{source_name} cannot become {target_name}: {wanted - known} of its face points are "
            f"unknown"
        )
    if wanted == 68 < known:
        # The names of its face count the 468, not the 68 that the others mean.
        face = source.part("face").start
        where.update({f"face_{i}": face + point for i, point in enumerate(FACE_68_OF_468)})
    sources: list[tuple[int, ...]] = []
    for name in target.point_names:
        names = (name,) if name in where else _MADE_OF.get(name, ())
        sources.append(tuple(where[each] for each in names) if where.keys() >= {*names} else ())
    if not any(sources):
        raise ValueError(f"no declared map from {source_name} to {target_name}")
    return tuple(sources)
