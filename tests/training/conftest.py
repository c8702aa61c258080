"""Fixtures of the training tests; all of them skip where torch is not installed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the training half needs posemill[train]")
