import zlib

from posemill.weights.catalogue import CATALOGUE, get_pinned
from posemill.weights.networks import NETWORKS


def test_every_file_is_pinned_as_those_that_the_golden_comparison_ran():
    assert zlib.crc32(repr([*CATALOGUE.values()]).encode()) == 98423292
    assert all(get_pinned(each.name, each.kind) is each for each in CATALOGUE.values())


def test_every_network_has_its_model_and_no_two_files_one_name():
    models = {name for name, pinned in CATALOGUE.items() if pinned.kind == "model"}
    assert models == {spec.model for spec in NETWORKS.values()} | {
        "mobilenet_thin", "movenet-thunder", "movenet-thunder-weights", "movenet-lightning",
        "movenet-lightning-weights", "nanodet", "nanodet-weights", "efficientnet_lite0",
    }  # fmt: skip
    assert get_pinned("hand_recrop", "model").file_name == "hand_recrop.tflite"
    names = [(pinned.kind, pinned.file_name) for pinned in CATALOGUE.values()]
    assert len(set(names)) == len(names)
