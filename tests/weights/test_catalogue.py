import re

import pytest

from posemill.weights.catalogue import CATALOGUE, get_pinned
from posemill.weights.networks import NETWORKS


@pytest.mark.parametrize("pinned", CATALOGUE.values(), ids=list(CATALOGUE))
def test_every_file_is_pinned_whole(pinned):
    for digest in (pinned.sha256, pinned.origin.sha256):
        assert re.fullmatch("[0-9a-f]{64}", digest)
    assert pinned.num_bytes > 0
    assert pinned.licence
    assert pinned.member.endswith(f"/{pinned.file_name}") or pinned.stored_as
    assert get_pinned(pinned.name, pinned.kind) is pinned


def test_every_network_has_its_model_and_no_two_files_one_name():
    models = {name for name, pinned in CATALOGUE.items() if pinned.kind == "model"}
    assert models == {spec.model for spec in NETWORKS.values()} | {
        "mobilenet_thin", "movenet-thunder", "movenet-thunder-weights", "movenet-lightning",
        "movenet-lightning-weights", "nanodet", "nanodet-weights", "efficientnet_lite0",
    }  # fmt: skip
    assert get_pinned("hand_recrop", "model").file_name == "hand_recrop.tflite"
    names = [(pinned.kind, pinned.file_name) for pinned in CATALOGUE.values()]
    assert len(set(names)) == len(names)
