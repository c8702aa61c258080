"""What decides the keypoints of an engine, in one place."""

from __future__ import annotations

from posemill.estimators.identity import build_identity, identity_on


def test_an_identity_has_options_device_runtime_hashes_and_converter() -> None:
    options = {"height": 368, "runtime": "auto"}
    identity = build_identity(
        "openpose", options, device="cuda:1", runtime="onnxruntime 1.2", hashes={"network": "ab"},
        converter=3,
    )  # fmt: skip
    assert identity == {
        "engine": "openpose", "height": "368", "device": "cuda", "runtime": "onnxruntime 1.2",
        "converter": "3", "sha256 network": "ab",
    }  # fmt: skip


def test_an_engine_without_networks_has_no_runtime_and_no_hashes() -> None:
    assert identity_on("cpu", "fake", {}) == {"engine": "fake", "version": "1", "device": "cpu"}
