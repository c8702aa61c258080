"""Flags out of the fields of a configuration, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest

from posemill.commands.declaring import Command
from posemill.commands.help_page import command_help
from posemill.commands.line import UsageError, parse_options, read_words
from posemill.errors import ConfigError
from posemill.settings import Settings, setting


class Inner(Settings, flat_prefix="inner_"):
    """A group."""

    rate: float = setting("A rate.", default=0.5)
    top_k: int | None = setting("How many.", default=None, auto="all of them")


class Small(Settings, command="small"):
    """A configuration with a field of every kind."""

    source: Path = setting("Where from.", flags=("--from", "-f"))
    label: str = setting("Any text.", default="", old=("caption_text",))
    colour: str = setting("A colour.", default="red", choices=("red", "green"))
    format: str = setting("A format.", default="npz", choices="posemill.formats:known_formats")
    numbers: list[float] = setting("Numbers.", default=[1.0], metavar="N")
    names: tuple[str, ...] | None = setting("Names.", default=None)
    options: Mapping[str, Any] = setting("Anything.", default={})
    is_on: bool = setting("Yes or no.", default=False)
    size: int = setting("A size.", default=7)
    is_kept: bool = setting("Yes or no.", default=True)
    inner: Inner

    @classmethod
    def preset_values(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a preset brings, whatever is given."""
        return {"size": 9}


def command(seen: list[Any], **which: Any) -> Command:
    def show(
        word: Annotated[str, setting("A word.", argument=True)],
        *,
        own: Annotated[int, setting("Its own.")] = 1,
        **settings: Annotated[Any, Small],
    ) -> None:
        """Say nothing."""
        seen.append((word, own, settings))

    return Command("small", show, **which)


def flags_given(*arguments: str, **which: Any) -> Any:
    seen = []
    made = command(seen, **which)
    assert made.help == "Say nothing."
    values, _ = read_words(made, ["w", *arguments])
    assert made.run(values) == 0
    return seen[0]


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ([], {}),
        (["--from", "a"], {"source": Path("a")}),
        (["-f", "a", "--label", ""], {"source": Path("a"), "label": ""}),
        (["--is-on"], {"is_on": True}),
        (["--caption-text", "a"], {"label": "a"}),  # its old name
        (["--no-is-on"], {"is_on": False}),
        (["--size", "0", "--inner-rate", "2"], {"size": 0, "inner_rate": 2.0}),
        (["--numbers", "1,2.5,", "--numbers", "3"], {"numbers": [1.0, 2.5, 3.0]}),
        (["--names", "a,b", "--names", "c"], {"names": ("a,b", "c")}),
        (
            ["--options", "top-k=3", "--options", "on=true", "--options", "say=a=b"],
            {"options": {"top_k": 3, "on": True, "say": "a=b"}},
        ),
    ],
)
def test_what_is_given_arrives_by_flat_name_and_type(arguments, flags):
    assert flags_given(*arguments) == ("w", 1, flags)
    assert flags_given("--own", "3", *arguments) == ("w", 3, flags)
    assert "is_on" not in read_words(command([]), ["w", "--no-is-on"])[1]


@pytest.mark.parametrize(
    ("which", "there", "gone"),
    [
        ({"skip": ["size"]}, "--colour", "--size"),
        ({"only": ["size"]}, "--size", "--colour"),
        ({"skip": ["size"], "only": ["size", "colour"]}, "--colour", "--size"),
    ],
)
def test_fields_can_be_left_out(which, there, gone):
    flags_given(there, "2", **which)
    with pytest.raises(UsageError, match="No such option"):
        flags_given(gone, "2", **which)


def test_the_help_has_the_sentence_the_choices_the_default_and_the_group(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = " ".join(command_help(command([])).split())
    for row in (
        "-f, --from <path> Where from.",
        "--label <text> Any text.",
        "--colour red|green A colour. (default: red)",
        "--format <text> A format. (default: npz) One of: npz, pkl",
        "--numbers N Numbers.",
        "--is-on / --no-is-on Yes or no. ",
        "--is-kept / --no-is-kept Yes or no. (default: True)",
        "--size <int> A size. (default: 7, by the preset)",
        "--inner-rate <float> A rate. (default: 0.5)",
        "--inner-top-k <int> How many. (default: all of them)",
        "inner: --inner-rate",
    ):
        assert row in text
    assert "--caption-text" not in text


@pytest.mark.parametrize("text", ["width", "=3", ""])
def test_what_is_no_pair_is_said_with_an_example(text):
    with pytest.raises(ConfigError) as caught:
        parse_options([text], "--x")
    expected = f"--x: expected name=value, for example width=64, got {text!r}"
    assert str(caught.value) == expected
    assert parse_options(["a=1", "b-c=", "d=[1, 2]"], "--x") == {"a": 1, "b_c": "", "d": [1, 2]}


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        ({}, []),
        ({"is_on": True, "size": 9}, ["--is-on"]),  # 9 is what the preset says
        ({"is_kept": False}, ["--no-is-kept"]),
        ({"label": "a b"}, ["--label", "a b"]),
        ({"numbers": [1, 2]}, ["--numbers", "1.0", "--numbers", "2.0"]),
        ({"names": ("a", "b")}, ["--names", "a", "--names", "b"]),
        ({"options": {"a": 1, "b": "x"}}, ["--options", "a=1", "--options", 'b="x"']),
        ({"inner_rate": 2.0}, ["--inner-rate", "2.0"]),
    ],
)
def test_a_configuration_is_the_flags_that_are_not_its_defaults(values, arguments):
    made = Small("here", **{"size": 7, **values}).to_arguments()
    without_preset = [word for word in made if word not in ("--size", "9")]
    assert without_preset == ["--from", "here", *arguments]
