"""Glosses out of CTC scores: the best label of each step, or a search over prefixes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

BLANK = 0
_NEVER = -math.inf

LogProbs = npt.NDArray[np.floating]


def decode_greedy(log_probs: LogProbs, blank: int = BLANK) -> list[int]:
    """Return the labels of the likeliest path: repeats joined, blanks left out.

    Args:
        log_probs: `(steps, classes)` of one clip, no padding.
        blank: The class that means no label.
    """
    path = np.asarray(log_probs).argmax(-1)
    if not len(path):
        return []
    is_new = np.concatenate([[True], path[1:] != path[:-1]])
    return [int(label) for label in path[is_new & (path != blank)]]


def decode_beam(
    log_probs: LogProbs, beam_width: int = 10, *, blank: int = BLANK, top_labels: int = 20
) -> list[int]:
    """Return the likeliest label sequence found by prefix beam search.

    Args:
        log_probs: `(steps, classes)` of one clip, no padding.
        beam_width: Prefixes kept after each step.
        blank: The class that means no label.
        top_labels: Labels tried at each step, the likeliest; the blank is always tried.
    """
    prefixes = search_prefixes(log_probs, beam_width, blank=blank, top_labels=top_labels)
    return list(prefixes[0][0])


def search_prefixes(
    log_probs: LogProbs, beam_width: int = 10, *, blank: int = BLANK, top_labels: int = 20
) -> list[tuple[tuple[int, ...], float]]:
    """Return the kept label sequences with their log probability, the likeliest first."""
    if beam_width < 1:
        raise ValueError(f"beam_width: expected 1 or more, got {beam_width}")
    steps = np.asarray(log_probs, np.float64)
    # Of each prefix: log probability of the paths that end in a blank, and in its last label.
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, _NEVER)}
    for scores in steps:
        labels = np.argsort(scores)[::-1][: top_labels + 1]
        ahead: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (in_blank, in_label) in beam.items():
            both = _add(in_blank, in_label)
            _put(ahead, prefix, both + float(scores[blank]), _NEVER)
            if prefix:
                # The same label again, without a blank between, is still the same one.
                _put(ahead, prefix, _NEVER, in_label + float(scores[prefix[-1]]))
            for label in labels:
                if label == blank:
                    continue
                before = in_blank if prefix and prefix[-1] == label else both
                _put(ahead, (*prefix, int(label)), _NEVER, before + float(scores[label]))
        best = sorted(ahead.items(), key=lambda entry: _add(*entry[1]), reverse=True)
        beam = dict(best[:beam_width])
    ranked = [(prefix, _add(*parts)) for prefix, parts in beam.items()]
    return sorted(ranked, key=lambda entry: entry[1], reverse=True)


def _put(
    beam: dict[tuple[int, ...], tuple[float, float]],
    prefix: tuple[int, ...],
    in_blank: float,
    in_label: float,
) -> None:
    old = beam.get(prefix, (_NEVER, _NEVER))
    beam[prefix] = (_add(old[0], in_blank), _add(old[1], in_label))


def _add(one: float, other: float) -> float:
    """Return log(exp(one) + exp(other))."""
    if one < other:
        one, other = other, one
    if other == _NEVER:
        return one
    return one + math.log1p(math.exp(other - one))
