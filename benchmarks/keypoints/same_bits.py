"""Whether another processor, or another version of LiteRT, gives the same landmarks, bit for bit.

    python -m benchmarks.keypoints.same_bits [--frames 12]
    qemu-x86_64 -cpu Haswell-v4 "$(which python)" -m benchmarks.keypoints.same_bits

Prints a hash of what each network answers to a picture, and of the landmarks of the demo's clip in
video mode: compare the lines of two runs. The second command runs on an emulated processor with
AVX2 and without AVX-512 (Debian: qemu-user), a minute instead of a second. For another version of
LiteRT: pip install --no-deps --target OTHER ai-edge-litert==1.3.0, and PYTHONPATH=OTHER.
"""

from __future__ import annotations

import argparse
import hashlib

import cv2
import numpy as np

from posemill.decoders import open_video
from posemill.decoders.pictures import read_picture
from posemill.estimators.holistic import HolisticEstimator
from posemill.estimators.runtimes import describe_runtime, open_network
from posemill.weights.catalogue import get_pinned
from posemill.weights.networks import NETWORKS
from posemill.weights.pull import ensure_media


def short_hash(*arrays: np.ndarray) -> str:
    """Return the first digits of a hash of the arrays' bytes."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


def main() -> None:
    """Compute and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=12)
    options = parser.parse_args()
    print(describe_runtime("litert"))
    photo = read_picture(ensure_media("astronaut"))
    for name, spec in NETWORKS.items():
        if spec.start is not None or get_pinned(spec.model, "model").on_demand:
            continue
        network = open_network(name, runtime="litert", device="cpu", threads=1)
        part = np.ascontiguousarray(photo[60 : 60 + network.size, 90 : 90 + network.size])
        print(f"{name:28s}", short_hash(*network.run(part[None])))
    engine = HolisticEstimator(runtime="litert")
    state, parts = engine.new_state(), []
    with open_video(ensure_media("carphone")) as video:
        for _, frame in zip(range(options.frames), video, strict=False):
            larger = cv2.resize(frame, None, fx=2, fy=2).astype(np.uint8)
            keypoints = engine.estimate([larger], [state])
            parts += [keypoints.points, keypoints.scores]
    print(f"{f'landmarks of {options.frames} frames':28s}", short_hash(*parts))


if __name__ == "__main__":
    main()
