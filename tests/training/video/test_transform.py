import numpy as np
import pytest
import torch

from posemill.errors import TrainingError
from posemill.training.video.transform import (
    COLOUR,
    CROP,
    ERASED,
    IMAGENET_MEAN,
    IMAGENET_STD,
    MIRROR,
    ClipAugment,
    ClipTransform,
    plain_view,
)

PLAIN = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}


def frames(batch=2, length=3, height=8, width=10):
    random = torch.Generator().manual_seed(0)
    shape = (batch, length, height, width, 3)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=random)


def view(**changes):
    """A plain view with some entries changed."""
    found = torch.from_numpy(plain_view())
    places = {"crop": CROP, "mirror": MIRROR, "colour": COLOUR, "erased": ERASED}
    for name, value in changes.items():
        found[places[name]] = torch.tensor(value, dtype=torch.float32)
    return found


def test_bytes_become_normalised_floats_in_the_layout_asked_for():
    given = frames()
    mean, std = torch.tensor(IMAGENET_MEAN), torch.tensor(IMAGENET_STD)
    wanted = ((given / 255 - mean) / std).permute(0, 1, 4, 2, 3)
    torch.testing.assert_close(ClipTransform()(given), wanted)
    other = ClipTransform(layout="bcthw")(given)
    assert other.shape == (2, 3, 3, 8, 10)
    torch.testing.assert_close(other, wanted.transpose(1, 2))
    plain = torch.stack([view(), view()])
    torch.testing.assert_close(ClipTransform()(given, plain), wanted, atol=1e-5, rtol=1e-5)


def test_each_clip_is_cut_mirrored_sized_and_erased_by_its_own_view():
    given = frames(2, 3, 8, 8)
    # Whole pixels: the right half of the lower half, as large as it is
    views = torch.stack([view(crop=(0.5, 0.5, 0.5, 0.5)), view(crop=(0, 0, 0.5, 0.5), mirror=1)])
    found = ClipTransform(4, **PLAIN)(given, views)
    assert found.shape == (2, 3, 3, 4, 4)
    floats = (given / 255).permute(0, 1, 4, 2, 3)
    torch.testing.assert_close(found[0], floats[0, :, :, 4:, 4:], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], floats[1, :, :, :4, :4].flip(-1), atol=1e-5, rtol=1e-5)
    views = torch.stack([view(erased=(0.25, 0.5, 0.5, 0.25)), view()])
    found, whole = ClipTransform()(given, views), ClipTransform()(given)
    inside = torch.zeros(8, 8, dtype=torch.bool)
    inside[4:6, 2:6] = True
    assert not found[0][..., inside].any()
    torch.testing.assert_close(found[0][..., ~inside], whole[0][..., ~inside], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1], whole[1], atol=1e-5, rtol=1e-5)


def test_colours_change_as_the_view_says():
    given = torch.zeros((3, 1, 1, 2, 3), dtype=torch.uint8)
    given[:, :, :, 0] = torch.tensor([204, 102, 51], dtype=torch.uint8)
    given[:, :, :, 1] = 102
    views = torch.stack([view(colour=(0.5, 1, 1)), view(colour=(1, 1, 0)), view(colour=(1, 0, 1))])
    bright, grey, flat = ClipTransform(**PLAIN)(given, views)[:, 0, :, 0]
    torch.testing.assert_close(bright[:, 0], torch.tensor([0.4, 0.2, 0.1]))
    tone = 0.299 * 0.8 + 0.587 * 0.4 + 0.114 * 0.2
    torch.testing.assert_close(grey[:, 0], torch.full((3,), tone))
    # without contrast only what a pixel's colour differs from its grey is … nothing at all
    torch.testing.assert_close(flat, torch.full((3, 2), (tone + 0.4) / 2))


def test_half_precision_of_the_network_does_not_round_pixels():
    given = frames()
    views = torch.stack([view(colour=(0.9, 0.8, 1.1)), view(crop=(0.1, 0.2, 0.7, 0.6))])
    plain = ClipTransform()(given, views)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ClipTransform()(given, views)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, plain)


def test_it_has_nothing_to_train_or_to_save_and_compiles_to_one_graph():
    transform = ClipTransform(6)
    assert not list(transform.parameters())
    assert not transform.state_dict()
    augment, rng = ClipAugment(erase=1.0), np.random.default_rng(0)
    views = torch.stack([torch.from_numpy(augment.draw(rng)) for _ in range(2)])
    graph = torch.export.export(transform, (frames(), views))
    torch.testing.assert_close(graph.module()(frames(), views), transform(frames(), views))


@pytest.mark.parametrize(
    ("given", "views", "message"),
    [
        (torch.zeros(2, 3, 8, 8, 3), None, r"frames: expected \(B, T, height, width, 3\) uint8, "
         r"got \(2, 3, 8, 8, 3\) float32"),
        (torch.zeros(2, 3, 3, 8, 8, dtype=torch.uint8), None, r"got \(2, 3, 3, 8, 8\) uint8"),
        (frames(), torch.zeros(1, 12), r"view: expected \(2, 12\), got \(1, 12\)"),
    ],
)  # fmt: skip
def test_other_tensors_are_refused(given, views, message):
    with pytest.raises(ValueError, match=message):
        ClipTransform()(given, views)


def views(augment, count=400):
    rng = np.random.default_rng(0)
    return np.stack([augment.draw(rng) for _ in range(count)])


def test_draws_lie_within_their_bounds_and_fill_them():
    found = views(ClipAugment(scale=(0.25, 1.0), mirror=0.3, brightness=0.1, contrast=0.2,
                              saturation=0.4, erase=0.5, erase_area=(0.1, 0.2)))  # fmt: skip
    left, top, width, height = found[:, CROP].T
    assert (left >= 0).all()
    assert (top >= 0).all()
    assert (left + width <= 1 + 1e-6).all()
    assert (top + height <= 1 + 1e-6).all()
    area = width * height
    assert 0.2 < area.min() < 0.3
    assert area.max() > 0.9
    assert 0.22 < found[:, MIRROR].mean() < 0.38
    for column, most in zip(found[:, COLOUR].T, (0.1, 0.2, 0.4), strict=True):
        assert 0.9 * most < np.abs(column - 1).max() <= most + 1e-6
    is_erased = found[:, ERASED][:, 2] > 0
    assert 0.4 < is_erased.mean() < 0.6
    erased = found[is_erased][:, ERASED]
    assert (erased[:, 2] * erased[:, 3] <= 0.2 + 1e-6).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": (0.0, 1.0)}, "scale: expected 0 < least <= most <= 1, got 0.0 and 1.0"),
        ({"scale": (0.8, 0.5)}, "scale: expected 0 < least"),
        ({"erase_area": (0.1, 2)}, "erase_area: expected 0 < least"),
        ({"ratio": (2, 1)}, "ratio: expected 0 < least <= most"),
        ({"mirror": 2}, "mirror: expected 0 to 1, got 2"),
        ({"brightness": -0.1}, "brightness: expected 0 to 1"),
    ],
)
def test_bounds_that_are_none_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ClipAugment(**options)


def test_classes_change_sides():
    classes = ["left", "right", "stop"]
    assert ClipAugment(mirror_labels={"left": "right"}).mirrored_classes(classes) == [1, 0, 2]
    assert ClipAugment(mirror_labels={}).mirrored_classes(classes) == [0, 1, 2]
    assert ClipAugment(mirror=0).mirrored_classes(classes) == [0, 1, 2]
    assert ClipAugment().mirrored_classes(["stop", "go_left"]) == [0, 1], "there is no other side"
    with pytest.raises(TrainingError, match="mirror_labels: no class is called 'up'"):
        ClipAugment(mirror_labels={"left": "up"}).mirrored_classes(classes)
