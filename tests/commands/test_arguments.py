"""What the functions take: names and sizes in each of their forms."""

from __future__ import annotations

import inspect

import pytest

import posemill
from posemill.commands.arguments import Reading


def test_a_single_name_is_not_its_letters():
    assert Reading().splits is None
    assert Reading(splits="train").splits == ("train",)
    assert Reading(splits=("train", "dev")).splits == ("train", "dev")
    assert Reading(splits=(name for name in ("a", "b"))).splits == ("a", "b")
    assert Reading(splits=[]).splits == ()


# What happens unless something else is said; all that is not here is None.
DEFAULTS = {
    "extract": {},
    "frames": {},
    "bench_decode": {"seconds": 1.0},
    "bench_engine": {"engine": "holistic", "num_frames": 8, "rounds": 3},
    "status": {},
    "prepare": {
        "out": "model_input_data",
        "normalize": "none",
        "interpolate": 0,
        "smooth": "none",
        "person": "main",
        "people": 1,
        "overwrite": False,
    },
    "export": {
        "out": "",
        "normalize": "none",
        "interpolate": 0,
        "smooth": "none",
        "person": "main",
        "replace": {},
        "overwrite": False,
    },
    "import_run": {"overwrite": False, "dry_run": False},
    "merge": {"overwrite": False, "dry_run": False},
    "view": {"detailed": False, "rows": 5},
    "visualize": {
        "out": "pictures",
        "num_samples": 10,
        "seed": 0,
        "person": "all",
        "style": "keypoints",
        "all": False,
        "overwrite": False,
    },
    "report": {"out": "report.html", "overwrite": False},
    "compare": {"overwrite": False},
    "predict": {"device": "auto", "engine_device": "cpu", "threads": 1, "overwrite": False},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_what_is_not_said_is_what_the_documentation_says(name):
    parameters = inspect.signature(getattr(posemill, name)).parameters
    given = {key: each.default for key, each in parameters.items()}
    usual = {
        key: value for key, value in given.items() if value not in (inspect.Parameter.empty, None)
    }
    assert usual == DEFAULTS[name]
