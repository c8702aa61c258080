"""Where the values of a configuration come from, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from posemill.errors import ConfigError
from posemill.provenance import Resolved, _to_toml, describe_unused, load_toml, read_toml, resolve
from posemill.settings import Settings, setting


class Inner(Settings, flat_prefix="inner_"):
    """A group."""

    share: float = setting("A share.", default=0.5)
    names: tuple[str, ...] | None = setting("Names.", default=None)


class Whole(Settings, command="whole"):
    """A configuration with one group."""

    source: Path = setting("Where from.")
    label: str = setting("Any text.", default="", old=("title", "caption"))
    numbers: list[float] = setting("Numbers.", default=[1.0])
    options: Mapping[str, Any] = setting("Anything.", default={})
    limit: float | None = setting("A limit.", default=None, flags=("--max", "-m"))
    is_on: bool = setting("Yes or no.", default=False)
    inner: Inner

    @classmethod
    def preset_values(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the title brings with it."""
        return {"numbers": [7.0]} if given.get("label") == "seven" else {}


def test_every_value_has_a_source_and_what_is_shown_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('source = "a"\ncaption = "seven"\n[inner]\nshare = 1\n')
    resolved = resolve(Whole, path, {"is_on": True, "limit": 2, "inner_names": "train"})
    resolved = resolved.with_machine({"options": {"x": 1}}, {"options": "one core"})
    assert resolved.sources == {
        "source": "file", "label": "file", "numbers": "preset", "options": "machine: one core",
        "limit": "flag", "is_on": "flag", "inner_share": "file", "inner_names": "flag",
    }  # fmt: skip
    assert ("inner", "share", 1.0, "file") in resolved.rows()
    again = tmp_path / "again.toml"
    again.write_text(resolved.to_toml())
    assert Whole(**read_toml(Whole, again)) == resolved.config
    plain = Resolved.of(Whole("a", title="seven"))
    assert plain.sources["label"] == plain.sources["source"] == "given"
    assert (plain.sources["numbers"], plain.sources["is_on"]) == ("preset", "default")
    assert "# limit is not set" in plain.to_toml()


def test_a_source_stands_behind_its_value_and_nothing_where_it_is_not_known() -> None:
    whole = Whole("a", title="x", inner_share=0.25)
    shown = Resolved(whole, {"source": "flag"}).to_toml().splitlines()
    assert shown[0] == 'source = "a"'.ljust(44) + "  # flag"
    assert 'label = "x"' in shown
    place = shown.index("[inner]")
    assert shown[place - 1] == ""
    assert "share = 0.25" in shown[place:]


def test_a_file_that_is_missing_or_broken_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no sweep file .*absent"):
        load_toml(tmp_path / "absent", what="sweep")
    (tmp_path / "c.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not TOML"):
        resolve(Whole, tmp_path / "c.toml")
    (tmp_path / "c.toml").write_text("sorce = 1")
    with pytest.raises(ConfigError, match=r"c\.toml: unknown setting 'sorce'; did you mean"):
        resolve(Whole, tmp_path / "c.toml")


def test_a_configuration_is_shown_as_toml_group_by_group() -> None:
    made = Resolved.of(Whole("a", title="x", inner_share=0.25, options={"k": [1, "b"], "p": {}}))
    assert made.to_toml() == (
        'source = "a"                                  # given\n'
        'label = "x"                                   # given\n'
        "numbers = [1.0]                               # default\n"
        'options = { "k" = [1, "b"], "p" = {} }        # given\n'
        "# limit is not set                            # default\n"
        "is_on = false                                 # default\n"
        "\n[inner]\n"
        "share = 0.25                                  # given\n"
        "# names is not set                            # default\n"
    )
    assert Resolved(made.config.inner, {}).to_toml().startswith("share = 0.25\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"), (False, "false"), ('é"', '"é\\""'), (Path("a/b"), '"a/b"'),
        ((1, 2.5), "[1, 2.5]"), ([], "[]"),
        ({}, "{}"), ({"a b": "c"}, '{ "a b" = "c" }'), (1e-05, "1e-05"),
    ],
)  # fmt: skip
def test_values_are_written_as_toml_has_them(value: Any, text: str) -> None:
    assert _to_toml(value) == text


def test_only_what_was_given_and_is_no_default_is_said_to_have_no_effect() -> None:
    reasons = {"limit": "no GPU", "inner_share": "it is alone", "is_on": "never"}
    assert describe_unused(Whole("a", limit=3, inner_share=0.25), reasons) == [
        "limit=3.0 has no effect: no GPU", "inner_share=0.25 has no effect: it is alone",
    ]  # fmt: skip
    assert describe_unused(Whole("a", is_on=False, inner_share=0.5), reasons) == []


def test_a_file_that_is_nested_too_deep_is_said(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(ConfigError, match=r"c\.toml is (nested too deep to be read|not TOML)"):
        load_toml(tmp_path / "c.toml")
    with pytest.raises(ConfigError, match="no config file"):
        load_toml(tmp_path / "absent")
