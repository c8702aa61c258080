from __future__ import annotations

from posemill.training.tasks.scorers import beats


def test_the_first_scores_are_the_best_so_far() -> None:
    assert beats({"accuracy": 0.1, "loss": 9.0}, {}, "accuracy", is_higher=True)


def test_higher_or_lower_is_better_as_the_score_says() -> None:
    high, low = {"wer": 0.5, "loss": 1.0}, {"wer": 0.2, "loss": 2.0}
    assert beats(high, low, "wer", is_higher=True)
    assert not beats(high, low, "wer", is_higher=False)
    assert beats(low, high, "wer", is_higher=False)


def test_between_equal_scores_the_lower_loss_decides() -> None:
    early, late = {"accuracy": 0.9, "loss": 1.0}, {"accuracy": 0.9, "loss": 0.8}
    assert beats(late, early, "accuracy", is_higher=True)
    assert not beats(early, late, "accuracy", is_higher=True)
    assert not beats(early, early, "accuracy", is_higher=True)
