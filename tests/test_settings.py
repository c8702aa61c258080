"""One mechanism for every configuration: what a field takes, says, and where values come from."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from posemill import ExtractConfig
from posemill.errors import ConfigError
from posemill.provenance import Resolved, _to_toml, describe_unused, load_toml, read_toml, resolve
from posemill.settings import Settings, find_field, setting


class Inner(Settings, flat_prefix="inner_"):
    """A group."""

    share: float = setting("A share.", default=0.5, least=0, most=1)
    names: tuple[str, ...] | None = setting("Names.", default=None)
    colour: str = setting("A colour.", default="red", choices=("red", "green"))


class Whole(Settings, command="whole"):
    """A configuration with one group."""

    source: Path = setting("Where from.")
    label: str = setting("Any text.", default="", old=("title", "caption"))
    numbers: list[float] = setting("Numbers.", default=[1.0])
    options: Mapping[str, Any] = setting("Anything.", default={})
    limit: float | None = setting("More than nothing.", default=None, above=0)
    is_on: bool = setting("Yes or no.", default=False)
    inner: Inner

    @classmethod
    def preset_values(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the title brings with it."""
        return {"numbers": [7.0]} if given.get("label") == "seven" else {}

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.is_on and self.limit is None:
            raise ConfigError("is_on needs a limit")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "source is missing; see posemill whole --help"),
        ({"source": 3}, "source: expected path, got 3"),
        ({"source": "a", "sorce": 1}, "unknown setting 'sorce'; did you mean 'source'?"),
        ({"source": "a", "zzzz": 1}, "unknown setting 'zzzz'; see: posemill whole --help"),
        ({"source": "a", "label": 3}, "label: expected str, got 3"),
        ({"source": "a", "numbers": ["x"]}, r"numbers: expected list of numbers, got \['x'\]"),
        ({"source": "a", "numbers": [True]}, r"numbers: expected list of numbers, got \[True\]"),
        ({"source": "a", "options": 1}, "options: expected dict, got 1"),
        ({"source": "a", "limit": 0}, "limit: expected more than 0, got 0.0"),
        ({"source": "a", "is_on": 1}, "is_on: expected bool, got 1"),
        ({"source": "a", "is_on": True}, "is_on needs a limit"),
        ({"source": "a", "inner": {"share": 2}}, "inner_share: expected 0 to 1, got 2.0"),
        ({"source": "a", "inner_share": None}, "inner_share: expected float, got None"),
        ({"source": "a", "inner_names": [1]}, "inner_names: expected a name or a list of names"),
        ({"source": "a", "inner": {"shar": 2}}, "unknown setting 'shar'; did you mean 'share'?"),
        (
            {"source": "a", "inner_colour": "gren"},
            r"inner_colour: expected red \| green, got 'gren'; did you mean 'green'\?",
        ),
        ({"source": "a", "title": "b", "label": "c"}, "title and label say the same thing"),
    ],
)
def test_the_same_is_refused_from_python_a_file_and_flags(values, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        Whole(**values)
    with pytest.raises(ConfigError, match=message):
        resolve(Whole, None, values)
    if all(value is not None for value in values.values()):
        path = tmp_path / "c.toml"
        path.write_text("\n".join(f"{name} = {_toml(value)}" for name, value in values.items()))
        with pytest.raises(ConfigError, match=message):
            resolve(Whole, path)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + "}"
    return str(value).lower() if isinstance(value, (bool, list)) else repr(value)


def test_text_and_paths_are_both_taken_and_one_name_is_not_its_letters():
    assert Whole("a").source == Whole(Path("a")).source == Path("a")
    assert Whole("a", Path("b")).label == "b"
    assert Whole("a", inner_names="train").inner.names == ("train",)
    for names in (["train", "dev"], (name for name in ("train", "dev"))):
        assert Whole("a", inner_names=names).inner.names == ("train", "dev")
    assert Whole("a", inner_names=[]).inner.names == ()


def test_old_names_go_on_working_as_keywords_and_attributes():
    config = Whole("a", title="t")
    assert config.label == config.title == config.caption == "t"
    assert config.replace(caption="u").label == "u"
    assert "title" not in config.to_dict()


def test_a_field_of_a_group_is_read_by_its_flat_name_too():
    config = Whole("a", inner=Inner(share=0.25), label="x")
    assert config.inner.share == config.inner_share == 0.25
    assert config.inner.colour == "red"
    assert config.given == {"source", "inner_share", "label"}
    with pytest.raises(AttributeError, match="'Whole' object has no attribute 'nothing'"):
        config.nothing  # noqa: B018
    field = find_field(Whole, "share", group="inner")
    assert field.flat == "inner_share"
    assert find_field(Whole, "share") is None


def test_a_notebook_sees_every_keyword_its_default_and_its_help():
    parameters = inspect.signature(Whole).parameters
    assert list(parameters) == list(Whole.all_fields())
    assert parameters["source"].default is inspect.Parameter.empty
    assert parameters["inner_share"].default == 0.5
    assert parameters["inner_share"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "A configuration with one group." in (Whole.__doc__ or "")
    assert "    inner_share: A share." in (Whole.__doc__ or "").splitlines()
    assert set(inspect.signature(ExtractConfig).parameters) == set(ExtractConfig.all_fields())


def test_defaults_are_not_shared_and_a_preset_stands_in_for_them_only():
    Whole("a").numbers.append(9.0)
    assert Whole("a").numbers == [1.0]
    assert Whole("a", label="seven").numbers == [7.0]
    assert Whole("a", label="seven", numbers=[1]).numbers == [1.0]
    assert Whole("a").replace(label="seven").numbers == [7.0]
    assert Whole("a", label="seven").replace(label="x").numbers == [1.0]


def test_configurations_compare_and_survive_pickling_and_copying():
    config = Whole("a", inner_share=0.25)
    assert config == Whole("a", inner={"share": 0.25}) != Whole("a")
    for other in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert other == config
        assert other.replace(label="x").inner_share == 0.25
    with pytest.raises(AttributeError):
        config.label = "y"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400, 1 << 63])
def test_numbers_that_are_not_finite_are_refused(value):
    with pytest.raises(ConfigError, match="fps: expected a finite number"):
        ExtractConfig(Path("a"), Path("b"), fps=value)


def test_every_value_has_a_source_and_what_is_shown_can_be_read_back(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('source = "a"\ncaption = "seven"\n[inner]\nshare = 1\n')
    resolved = resolve(Whole, path, {"is_on": True, "limit": 2, "inner_names": "train"})
    resolved = resolved.with_machine({"options": {"x": 1}}, {"options": "one core"})
    assert resolved.sources == {
        "source": "file", "label": "file", "numbers": "preset", "options": "machine: one core",
        "limit": "flag", "is_on": "flag", "inner_share": "file", "inner_names": "flag",
        "inner_colour": "default",
    }  # fmt: skip
    assert ("inner", "share", 1.0, "file") in resolved.rows()
    again = tmp_path / "again.toml"
    again.write_text(resolved.to_toml())
    assert Whole(**read_toml(Whole, again)) == resolved.config
    plain = Resolved.of(Whole("a", title="seven"))
    assert plain.sources["label"] == plain.sources["source"] == "given"
    assert (plain.sources["numbers"], plain.sources["is_on"]) == ("preset", "default")
    assert "# limit is not set" in plain.to_toml()


def test_a_source_stands_behind_its_value_and_nothing_where_it_is_not_known():
    whole = Whole("a", title="x", inner_share=0.25)
    shown = Resolved(whole, {"source": "flag"}).to_toml().splitlines()
    assert shown[0] == 'source = "a"'.ljust(44) + "  # flag"
    assert 'label = "x"' in shown
    place = shown.index("[inner]")
    assert shown[place - 1] == ""
    assert "share = 0.25" in shown[place:]


def test_a_file_that_is_missing_or_broken_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"no sweep file .*absent"):
        load_toml(tmp_path / "absent", what="sweep")
    for text in (b"\xff", b"stride = " + b"1" * 5000, b"a = " + b"[" * 100_000):
        (tmp_path / "c.toml").write_bytes(text)
        with pytest.raises(ConfigError, match=r"c\.toml is (not TOML|nested too deep to be read)"):
            resolve(Whole, tmp_path / "c.toml")
    (tmp_path / "c.toml").write_text("sorce = 1")
    with pytest.raises(ConfigError, match=r"c\.toml: unknown setting 'sorce'; did you mean"):
        resolve(Whole, tmp_path / "c.toml")


def test_a_configuration_is_shown_as_toml_group_by_group():
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
        'colour = "red"                                # default\n'
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
def test_values_are_written_as_toml_has_them(value, text):
    assert _to_toml(value) == text


def test_only_what_was_given_and_is_no_default_is_said_to_have_no_effect():
    reasons = {"limit": "no GPU", "inner_share": "it is alone", "is_on": "never"}
    assert describe_unused(Whole("a", limit=3, inner_share=0.25), reasons) == [
        "limit=3.0 has no effect: no GPU", "inner_share=0.25 has no effect: it is alone",
    ]  # fmt: skip
    assert describe_unused(Whole("a", is_on=False, inner_share=0.5), reasons) == []
