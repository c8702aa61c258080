"""What engines say about themselves, and how it is held against what is asked of them."""

import json
import sys

import pytest

from posemill.errors import ConfigError, DeviceError
from posemill.estimators import EngineInfo, EngineOption, engine_info, open_estimator
from posemill.estimators.identity import build_identity
from posemill.skeletons import Part, Skeleton, full_name, get_skeleton, is_skeleton, skeleton_names

HAT = Skeleton("hat-2", (Part("hat", 0, 2),), ("left_rim", "right_rim"), ((0, 1),), (1, 0))
INFO = EngineInfo(
    "finds hats",
    (HAT, "openpose-18"),
    modes=("image",),
    devices=("cpu", "cuda"),
    options=(
        EngineOption("height", int, 368, "Of the input.", least=1),
        EngineOption("share", float, 0.5, "Of the picture.", least=0, most=1),
        EngineOption("flip", bool, False, "Look twice.", skeletons=("coco-133",)),
        EngineOption("size", str, "small", "Of the network.", choices=("small", "large")),
        EngineOption("more", dict, None, "Anything."),
        EngineOption("top", float, 9.0, "A limit.", most=9),
    ),
)


class HatEngine:
    info = INFO


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hight": 1}, r"engine 'hat' has no option 'hight'; it has .*; did you mean 'height'\?"),
        ({"height": 0}, "height: expected a whole number of at least 1, got 0"),
        ({"height": 1.5}, "height: expected a whole number of at least 1, got 1.5"),
        ({"height": True}, "height: expected a whole number of at least 1, got True"),
        ({"share": "x"}, "share: expected 0 to 1, got 'x'"),
        ({"share": float("nan")}, "share: expected 0 to 1, got nan"),
        ({"flip": 1}, "flip: expected true or false, got 1"),
        ({"size": "smal"}, r"unknown size 'smal'; known: small, large; did you mean 'small'\?"),
        ({"more": "x"}, "more: expected an object, got 'x'"),
        ({"top": 10}, "top: expected a number of at most 9, got 10"),
    ],
)
def test_an_option_that_cannot_be_is_said(options, message):
    with pytest.raises(ConfigError, match=message):
        INFO.check_options("hat", options)


def test_options_modes_devices_and_skeletons_are_held_against_the_declaration():
    good = {"height": 1, "share": 1, "flip": True, "size": "large", "more": None, "top": -1.5}
    INFO.check_options("hat", good)
    INFO.check_mode("hat", "auto")
    INFO.check_mode("hat", "image")
    with pytest.raises(ConfigError, match="engine 'hat' has no video mode; it has image"):
        INFO.check_mode("hat", "video")
    INFO.check_device("hat", "cuda:3")
    with pytest.raises(DeviceError, match="'hat': unknown device 'mps'; expected cpu, cuda:N"):
        INFO.check_device("hat", "mps")
    assert INFO.skeleton_to_store("hat") == "hat-2"
    assert INFO.skeleton_to_store("hat", "openpose-18") == "openpose-18"
    message = r"engine 'hat' gives hat-2, openpose-18, not 'hat-3'; did you mean 'hat-2'\?"
    with pytest.raises(ConfigError, match=message):
        INFO.skeleton_to_store("hat", "hat-3")


def test_an_option_can_change_the_skeletons_and_all_of_it_can_be_printed_as_json():
    assert INFO.with_options({"flip": True}).skeleton_names == ("coco-133",)
    assert INFO.with_options({"flip": False, "height": 5}) is INFO
    assert INFO.with_options({}) is INFO
    said = json.loads(json.dumps(INFO.to_dict()))
    assert said["skeletons"] == ["hat-2", "openpose-18"]
    assert said["options"][1] == {
        "name": "share", "default": 0.5, "expected": "0 to 1", "help": "Of the picture.",
    }  # fmt: skip


def test_a_skeleton_that_an_engine_brings_is_known_by_name(monkeypatch, install_entry_points):
    assert not is_skeleton("hat-2")
    monkeypatch.setitem(sys.modules, "hats", sys.modules[__name__])
    install_entry_points({"posemill.engines": {"hat": "hats:HatEngine", "torn": "hats:Torn"}})
    assert get_skeleton("hat-2") is HAT
    assert engine_info("hat") is INFO
    get_skeleton.cache_clear()  # other tests must not know it


def test_a_skeleton_can_be_named_without_its_engine(monkeypatch, install_entry_points):
    monkeypatch.setitem(sys.modules, "hats", sys.modules[__name__])
    install_entry_points({"posemill.skeletons": {"hat-2": "hats:HAT", "hat-9": "hats:HAT"}})
    assert get_skeleton("hat-2") is HAT
    assert full_name("hat-2") == "hat-2"
    assert skeleton_names()[-2:] == ["hat-2", "hat-9"]
    with pytest.raises(ValueError, match="the entry point of skeleton 'hat-9' is"):
        get_skeleton("hat-9")
    get_skeleton.cache_clear()


def test_an_engine_that_declares_nothing_is_refused(install_entry_points):
    install_entry_points({"posemill.engines": {"mute": "json:JSONDecoder"}})
    with pytest.raises(ConfigError, match="engine 'mute' does not say what it gives"):
        open_estimator("mute")
    with pytest.raises(ConfigError, match="unknown engine 'fakes'; known: holistic, hands, face"):
        open_estimator("fakes")


def test_an_identity_has_options_device_runtime_hashes_and_converter():
    options = {"height": 368, "runtime": "auto"}
    identity = build_identity(
        "openpose", options, device="cuda:1", runtime="onnxruntime 1.2", hashes={"network": "ab"},
        converter=3,
    )  # fmt: skip
    assert identity == {
        "engine": "openpose", "height": "368", "device": "cuda", "runtime": "onnxruntime 1.2",
        "converter": "3", "sha256 network": "ab",
    }  # fmt: skip
