"""What every engine, decoder, format, executor and place must do, as tests for other packages.

    from posemill.testing import EngineContract

    class TestMine(EngineContract):
        name = "mine"          # of the entry point

Needs pytest, as nothing else of posemill does. Our own tests run these suites over our tables.
"""

import pytest

for _module in ("decoders", "engines", "executors", "formats", "places"):
    pytest.register_assert_rewrite(f"posemill.testing.{_module}")

from posemill.testing.decoders import DecoderContract  # noqa: E402
from posemill.testing.engines import EngineContract  # noqa: E402
from posemill.testing.executors import ExecutorContract  # noqa: E402
from posemill.testing.formats import FormatContract  # noqa: E402
from posemill.testing.places import PlaceContract  # noqa: E402

__all__ = [
    "DecoderContract",
    "EngineContract",
    "ExecutorContract",
    "FormatContract",
    "PlaceContract",
]
