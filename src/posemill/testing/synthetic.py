"""A made-up gloss corpus in PHOENIX layout: annotations, and the keypoints of someone signing them.

Each gloss is a movement of both hands with hand shapes at its start and end. Signs run into one
another: the hands travel between them, and a sign begins and ends bent towards its neighbours
(coarticulation). Speed, size and place change from signer to signer, points jitter, and hands go
missing for some frames. Everything follows from the seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import TrainingError
from posemill.files import atomic_path
from posemill.outputs import Outputs
from posemill.records import BoolArray, FloatArray
from posemill.skeletons import get_skeleton

Array = npt.NDArray[np.float64]
Rng = np.random.Generator

SKELETON = "holistic-143"
_FINGERS, _KNOTS = 5, 4
_NUM_MOVEMENTS, _NUM_PLACES, _NUM_SHAPES = 12, 6, 8
_REST = np.array([[0.45, 1.1, 0.0], [-0.45, 1.1, 0.0]])
# x, y of the body at rest in units of the shoulder width, the middle of the shoulders at (0, 0).
_BODY = {
    "nose": (0.0, -0.75), "left_shoulder": (0.5, 0.0), "right_shoulder": (-0.5, 0.0),
    "left_hip": (0.35, 1.4), "right_hip": (-0.35, 1.4), "mouth_left": (0.1, -0.6),
    "mouth_right": (-0.1, -0.6), "left_ear": (0.25, -0.75), "right_ear": (-0.25, -0.75),
}  # fmt: skip


@dataclass(frozen=True)
class CorpusOptions:
    """How large and how hard the corpus is.

    Args:
        num_glosses: Size of the vocabulary.
        num_clips: Clips of each split.
        num_signers: People with a size, a place and a speed of their own.
        coarticulation: Share by which a sign's ends bend towards its neighbours.
        variation: How much two takes of a sign differ, in shoulder widths.
        noise: Jitter of each point, in shoulder widths.
        missing: Share of frames in which a hand is not found.
        seed: Decides everything.
    """

    num_glosses: int = 80
    num_clips: Mapping[str, int] | None = None
    num_signers: int = 5
    coarticulation: float = 0.5
    variation: float = 0.12
    noise: float = 0.04
    missing: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class _Sign:
    """What a gloss looks like.

    Args:
        path: `(knots, 2 hands, 3)`: where the wrists go, in shoulder widths.
        shapes: `(2 ends, 2 hands, 5)`: how bent each finger is, 0 to 1.
        turns: `(2 ends, 2 hands)`: direction of the hands, radians.
        mouth: How far open.
        frames: Usual length.
    """

    path: Array
    shapes: Array
    turns: Array
    mouth: float
    frames: float


def write_corpus(
    out: Path, options: CorpusOptions | None = None, *, overwrite: bool = False
) -> dict[str, int]:
    """Write a corpus and return the clips of each split.

    `out/annotations/manual/SYNTHETIC.{split}.corpus.csv` and `out/keypoints/{split}_keypoints.npz`,
    the latter as `posemill prepare` writes them (layout holistic-143).
    """
    options = options or CorpusOptions()
    if options.num_glosses < 2:
        raise ValueError(f"num_glosses: expected 2 or more, got {options.num_glosses}")
    rng = np.random.default_rng([options.seed, 1])
    vocabulary = [f"GLOSS-{index:03d}" for index in range(options.num_glosses)]
    # Some glosses are frequent, and each has favourites that follow it, as in real sentences.
    weights = 1.0 / np.arange(3, options.num_glosses + 3)
    following = rng.dirichlet(weights * options.num_glosses * 0.1, size=options.num_glosses)
    counts = dict(options.num_clips or {"train": 600, "dev": 80, "test": 80})
    outputs = Outputs(out, overwrite=overwrite)
    paths = {split: _paths_of(out, split) for split in counts}
    for path in itertools.chain(*paths.values()):
        outputs.claim_file(path)
    (out / "annotations" / "manual").mkdir(parents=True, exist_ok=True)
    for split, count in counts.items():
        sentences = {
            f"synthetic-{split}-{index:04d}": _sentence(vocabulary, following, weights, rng)
            for index in range(count)
        }
        lines = ["name|video|start|end|speaker|orth|translation"]
        for index, (name, glosses) in enumerate(sentences.items()):
            signer = f"Signer{index % options.num_signers + 1:02d}"
            orth = " ".join(glosses)
            lines.append(f"{name}|{name}/1/*.png|-1|-1|{signer}|{orth}|{orth.lower()}")
        with atomic_path(paths[split][0]) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
        write_keypoints(out / "keypoints", split, sentences, options)
        for path in paths[split]:
            outputs.record(path)
    return counts


def _paths_of(out: Path, split: str) -> tuple[Path, Path]:
    """Return the files of annotations and of keypoints."""
    annotations = out / "annotations" / "manual" / f"SYNTHETIC.{split}.corpus.csv"
    return annotations, out / "keypoints" / f"{split}_keypoints.npz"


def write_keypoints(
    folder: Path, split: str, sentences: Mapping[str, Sequence[str]], options: CorpusOptions
) -> None:
    """Write `{split}_keypoints.npz` with a clip for each sentence (name -> glosses)."""
    if not sentences:
        raise TrainingError("split {split!r}: no sentences to make keypoints of", split=split)
    folder.mkdir(parents=True, exist_ok=True)
    clips = list(make_clips(sentences, options))
    lengths = [len(points) for points, _ in clips]
    arrays = {
        "keypoints": np.concatenate([points for points, _ in clips]),
        "mask": np.concatenate([mask for _, mask in clips]),
        "video_ids": np.repeat(np.array(list(sentences)), lengths),
        "lengths": np.array(lengths, np.int64),
        "clip_ids": np.array(list(sentences)),
        "keypoint_names": np.array(get_skeleton(SKELETON).point_names),
    }
    with atomic_path(folder / f"{split}_keypoints.npz") as temporary, temporary.open("wb") as file:
        # numpy's stub reads a dict of arrays as its own flag allow_pickle.
        np.savez(file, **arrays)  # type: ignore[arg-type]


def make_clips(
    sentences: Mapping[str, Sequence[str]], options: CorpusOptions
) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Yield points `(T, 143, 3)`, normalised by the picture, and mask `(T, 143)` per sentence."""
    signers = [_signer(index, options.seed) for index in range(options.num_signers)]
    for index, (name, glosses) in enumerate(sentences.items()):
        rng = np.random.default_rng([options.seed, 2, *name.encode()])
        signer = signers[index % len(signers)]
        signs = [make_sign(gloss, options.seed) for gloss in glosses]
        tracks = _join_signs(signs, signer["speed"], options, rng)
        yield _draw_person(tracks, signer, options, rng)


def make_sign(gloss: str, seed: int) -> _Sign:
    """Return what a gloss looks like: always the same for a gloss and a seed."""
    rng = np.random.default_rng([seed, 3, *gloss.encode()])
    # All glosses are made of few movements, places and hand shapes, as real signs are: many differ
    # from another one in a single respect.
    parts = np.random.default_rng([seed, 5])
    movements = np.cumsum(parts.normal(0, 0.2, (_NUM_MOVEMENTS, _KNOTS, 2, 3)), axis=1)
    places = parts.normal(0, 0.25, (_NUM_PLACES, 2, 3))
    shapes = parts.random((_NUM_SHAPES, _FINGERS)).round() * 0.9
    turns = parts.uniform(-1.2, 1.2, _NUM_SHAPES)
    path = movements[rng.integers(_NUM_MOVEMENTS)] + places[rng.integers(_NUM_PLACES)]
    path = path + np.array([[0.35, 0.45, 0], [-0.35, 0.45, 0]])
    if rng.random() < 0.4:
        path[:, 0] = _REST[0]  # one-handed: the left one rests
    first, last = rng.integers(_NUM_SHAPES, size=(2, 2))
    return _Sign(
        path,
        shapes[[first, last]],
        turns[[first, last]],
        float(rng.random()),
        float(rng.uniform(6, 11)),
    )


def _sentence(vocabulary: Sequence[str], following: Array, weights: Array, rng: Rng) -> list[str]:
    current = int(rng.choice(len(vocabulary), p=weights / weights.sum()))
    chosen = [current]
    for _ in range(int(rng.integers(2, 8))):
        # Mostly what usually follows, sometimes anything: no sequence can be relied on.
        likely = 0.7 * following[current] + 0.3 / len(vocabulary)
        current = int(rng.choice(len(vocabulary), p=likely / likely.sum()))
        chosen.append(current)
    return [vocabulary[index] for index in chosen]


def _signer(index: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, 4, index])
    return {
        "size": float(rng.uniform(0.2, 0.28)),
        "x": float(rng.uniform(0.45, 0.55)),
        "y": float(rng.uniform(0.4, 0.5)),
        "speed": float(rng.uniform(0.85, 1.2)),
        "reach": float(rng.uniform(0.9, 1.1)),
    }


def _join_signs(
    signs: Sequence[_Sign], speed: float, options: CorpusOptions, rng: Rng
) -> dict[str, Array]:
    """Return wrists `(T, 2, 3)`, fingers `(T, 2, 5)`, turns `(T, 2)` and mouth `(T,)`."""
    bend, variation = options.coarticulation, options.variation
    at_rest = (_REST, np.full((2, 5), 0.3), np.zeros(2), 0.0)
    knots: list[tuple[Any, ...]] = [(0.0, *at_rest)]  # time, wrists, fingers, turns, mouth
    now = 0.0
    for number, sign in enumerate(signs):
        path = sign.path + rng.normal(0, variation, sign.path.shape)
        shape = sign.shapes + rng.normal(0, 2 * variation, sign.shapes.shape)
        turn = sign.turns + rng.normal(0, 2 * variation, sign.turns.shape)
        before = signs[number - 1].path[-1] if number else _REST
        after = signs[number + 1].path[0] if number + 1 < len(signs) else _REST
        path[0] += bend * (before - path[0])
        path[-1] += bend * (after - path[-1])
        now += rng.uniform(2, 5) / speed  # the way from the sign before
        length = sign.frames / speed * rng.uniform(0.75, 1.3)
        for knot in range(_KNOTS):
            share = knot / (_KNOTS - 1)
            shown = shape[0] + share * (shape[1] - shape[0])
            turned = turn[0] + share * (turn[1] - turn[0])
            knots.append((now + share * length, path[knot], shown, turned, sign.mouth))
        now += length
    now += rng.uniform(3, 6)
    knots.append((now, *at_rest))
    times, *tracks = zip(*knots, strict=True)
    at = np.arange(int(now) + 1)
    return {
        name: _smooth(_follow(at, times, np.array(track)))
        for name, track in zip(("wrists", "fingers", "turns", "mouth"), tracks, strict=True)
    }


def _follow(at: npt.NDArray[np.int64], times: Sequence[float], knots: Array) -> Array:
    flat = knots.reshape(len(knots), -1)
    columns = [np.interp(at, times, column) for column in flat.T]
    return np.stack(columns, 1).reshape(len(at), *knots.shape[1:])


def _smooth(track: Array) -> Array:
    """Mean of three frames: hands do not turn corners."""
    padded = np.concatenate([track[:1], track, track[-1:]])
    smooth: Array = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    return smooth


def _draw_person(
    tracks: Mapping[str, Array], signer: Mapping[str, float], options: CorpusOptions, rng: Rng
) -> tuple[FloatArray, BoolArray]:
    skeleton = get_skeleton(SKELETON)
    where = {name: index for index, name in enumerate(skeleton.point_names)}
    frames = len(tracks["mouth"])
    points = np.zeros((frames, skeleton.num_points, 3))
    points[:, where["nose"]] = (0, -0.75, 0)
    for name in skeleton.point_names[skeleton.part("pose").start :]:
        points[:, where[name], :2] = _BODY.get(name, (0.0, -0.7 if "eye" in name else 2.0))
    points[:, : len(skeleton.part("face"))] = _face(tracks["mouth"])
    sway = _smooth(_smooth(rng.normal(0, 0.02, (frames, 1, 3))))
    for hand, side in enumerate(("left", "right")):
        wrist = tracks["wrists"][:, hand] * signer["reach"]
        part = skeleton.part(f"{side}_hand")
        turn = tracks["turns"][:, hand] * (1 if hand else -1)
        points[:, part.start : part.stop] = wrist[:, None] + _hand(tracks["fingers"][:, hand], turn)
        points[:, where[f"{side}_wrist"]] = wrist
        points[:, where[f"{side}_elbow"]] = (
            wrist + np.array([*_BODY[f"{side}_shoulder"], 0]) + (0, 0.4, 0)
        ) / 2
        for finger, index in (("thumb", 4), ("index", 8), ("pinky", 20)):
            points[:, where[f"{side}_{finger}"]] = points[:, part.start + index]
    points += sway + rng.normal(0, options.noise, points.shape)
    points *= signer["size"]
    points[..., :2] += (signer["x"], signer["y"])
    mask = np.ones(points.shape[:2], bool)
    for side in ("left", "right"):
        part = skeleton.part(f"{side}_hand")
        lost = np.convolve(rng.random(frames) < options.missing / 3, np.ones(3), "same") > 0
        mask[lost, part.start : part.stop] = False
    return np.where(mask[..., None], points, 0).astype(np.float32), mask


def _hand(fingers: Array, turn: Array) -> Array:
    """Return `(T, 21, 3)` around the wrist: five fingers of four joints, bent and turned."""
    frames = len(fingers)
    points = np.zeros((frames, 21, 3))
    for finger in range(_FINGERS):
        direction = (finger - 2) * 0.25 + turn
        place = 0.18 * np.stack([np.sin(direction), -np.cos(direction), 0 * turn], -1)
        for joint in range(4):
            points[:, 1 + 4 * finger + joint] = place
            # A bent finger gets shorter in the picture and comes towards the camera.
            bend = fingers[:, finger] * (joint + 1) * 0.55
            step = np.stack(
                [
                    np.sin(direction) * np.cos(bend),
                    -np.cos(direction) * np.cos(bend),
                    -np.sin(bend),
                ],
                -1,
            )
            place = place + 0.07 * step
    return points


def _face(mouth: Array) -> Array:
    """Return `(T, 68, 3)`: an oval, and a mouth that opens."""
    around = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    oval = np.stack([0.22 * np.sin(around), 0.3 * np.cos(around) - 0.75, 0 * around], -1)
    lips = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    face = np.zeros((len(mouth), 68, 3))
    face[:, :48] = oval
    face[:, 48:, 0] = 0.08 * np.cos(lips)
    face[:, 48:, 1] = -0.6 + (0.02 + 0.06 * mouth[:, None]) * np.sin(lips)
    return face
