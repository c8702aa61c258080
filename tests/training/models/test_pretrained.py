import pickle

import pytest
import torch
from small_sets import Harm

from posemill.decoders.pictures import read_picture
from posemill.errors import WeightsError
from posemill.training.models import build_model
from posemill.training.models.backbones import LiteNetwork, _SameConv
from posemill.training.models.video import ClipTimes
from posemill.training.video.transform import ClipTransform


def build(**options):
    model = build_model("tsn", num_classes=5, num_frames=1, **options)
    model.load_pretrained()
    return model


def test_lite0_knows_a_suit_of_an_astronaut(need_model, media):
    """The class that efficientnet_lite_pytorch, the weights' own package, gives the picture too."""
    path = need_model("efficientnet_lite0")
    model = build_model("tsn", num_classes=1000, num_frames=1, backbone="lite0").eval()
    model.load_pretrained()
    assert sum(weight.numel() for weight in model.parameters()) == 4_652_008
    published = torch.load(path, weights_only=True)
    model.head.fc.load_state_dict({k: published[f"_fc.{k}"] for k in ("weight", "bias")})
    picture = torch.from_numpy(read_picture(media("astronaut")).copy())[None, None]
    with torch.no_grad():
        scores = model(ClipTransform(224)(picture), torch.tensor([1])).softmax(-1)[0]
    top = scores.topk(3)
    assert top.indices.tolist() == [450, 560, 573]  # bobsled, helmet, go-kart
    assert top.values[0] == pytest.approx(0.30, abs=0.01)


def test_lite0_gets_bytes_as_it_learned_from():
    network = LiteNetwork().eval()
    seen = []
    network.conv_stem.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    frames = torch.tensor([0, 127, 255], dtype=torch.uint8).reshape(1, 1, 1, 1, 3)
    frames = frames.expand(1, 1, 32, 32, 3)
    with torch.no_grad():
        network(ClipTransform()(frames)[0], ClipTimes(1))
    torch.testing.assert_close(
        seen[0][0, :, 0, 0], torch.tensor([-127 / 128, 0, 1.0]), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(("size", "begin"), [(6, 0), (7, 1)])
def test_an_odd_pixel_of_padding_comes_right_and_below(size, begin):
    conv = _SameConv(1, 1, 3, stride=2, bias=False)
    torch.nn.init.ones_(conv.weight)
    rows = torch.arange(float(size))
    result = conv(rows.expand(1, 1, size, size))[0, 0, 1]
    ends = [sum(rows[max(0, p - begin) : p - begin + 3].tolist()) for p in range(0, size, 2)]
    assert result.tolist() == pytest.approx([3 * end for end in ends])


def test_a_file_of_the_same_backbone_is_taken_whatever_is_around_its_names(tmp_path):
    first = build(backbone="thin")
    names = {f"module.{key}": value for key, value in first.backbone.state_dict().items()}
    torch.save({"state_dict": {**names, "module.fc.weight": torch.zeros(3)}}, tmp_path / "w.pth")
    second = build(backbone="thin", weights=str(tmp_path / "w.pth"))
    for one, other in zip(first.backbone.parameters(), second.backbone.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (lambda path: torch.save(build(backbone="resnet18").backbone.state_dict(), path),
         r"w.pth does not fit backbone thin: \d+ weights are .* the first 'conv1.weight'; "),
        (lambda path: torch.save(
            {**build(backbone="thin").backbone.state_dict(), "more": torch.ones(1)}, path),
         "1 weight is missing, of another shape or too many, the first 'more'"),
        (lambda path: torch.save([1, 2], path), "w.pth is no file of tensors alone"),
        (lambda path: path.write_text("no weights"),
         r"w.pth is no file of tensors alone: .* that torch.save wrote\Z"),
        (lambda path: torch.save(Harm(path.parent / "harm"), path), "is no file of tensors alone"),
        (lambda path: path.write_bytes(pickle.dumps(Harm(path.parent / "harm"))),
         "is no file of tensors alone"),
        (lambda path: None, "w.pth cannot be read: No such file"),
    ],
    ids=["another backbone", "too many", "a list", "text", "code", "a pickle", "nothing"],
)  # fmt: skip
def test_other_weights_are_one_clear_sentence(tmp_path, save, message):
    save(tmp_path / "w.pth")
    with pytest.raises(WeightsError, match=message):
        build(backbone="thin", weights=str(tmp_path / "w.pth"))
    assert not (tmp_path / "harm").exists()


def test_a_frozen_backbone_stays_as_it_is():
    model = build(backbone="thin", freeze_backbone=True)
    before = {key: value.clone() for key, value in model.backbone.state_dict().items()}
    model.train()
    model(torch.randn(2, 4, 3, 32, 32), torch.tensor([4, 4])).square().sum().backward()
    assert model.head.fc.weight.grad is not None
    assert all(weight.grad is None for weight in model.backbone.parameters())
    assert all(
        torch.equal(value, before[key]) for key, value in model.backbone.state_dict().items()
    )
