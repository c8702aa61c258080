from collections.abc import Callable
from pathlib import Path

import pytest

from posemill import plugins
from posemill.errors import ConfigError, MissingExtraError

TABLE = {"text": "string:capwords", "gone": "posemill.no_such_module:X", "old": "string:no_such"}
Install = Callable[[dict[str, dict[str, str]]], Path]


def test_a_row_of_the_table_is_loaded_and_comes_before_that_of_a_package(install_entry_points):
    import string

    install_entry_points({"posemill.things": {"text": "json:dumps", "other": "json:loads"}})
    assert plugins.load("thing", TABLE, "text") is string.capwords
    assert plugins.load("thing", TABLE, "other").__name__ == "loads"
    assert plugins.names_of("thing", TABLE) == ["text", "gone", "old", "other"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("txt", r"unknown thing 'txt'; known: text, gone, old; did you mean 'text'\?"),
        ("zzz", r"unknown thing 'zzz'; known: text, gone, old$"),
        ("gone", "thing 'gone': there is no module 'posemill.no_such_module'"),
        ("old", "thing 'old': 'string' has no 'no_such'"),
    ],
)
def test_a_name_that_leads_nowhere_is_said(name, message):
    with pytest.raises(ConfigError, match=message):
        plugins.load("thing", TABLE, name)


def test_a_missing_package_is_named_with_the_line_that_installs_it(install_entry_points):
    folder = install_entry_points({"posemill.things": {"outer": "needs_much:Thing"}})
    (folder / "needs_much.py").write_text("import no_such_package.part\n")
    message = r"thing 'outer' of the package 'outside' needs 'no_such_package', which .*install no_"
    with pytest.raises(MissingExtraError, match=message):
        plugins.load("thing", {}, "outer", extra="train")
    with pytest.raises(MissingExtraError, match=r"pip install 'posemill\[train\]'"):
        plugins.load("thing", {"mine": "needs_much:Thing"}, "mine", extra="train")


def test_two_packages_with_one_name_are_refused(install_entry_points):
    install_entry_points({"posemill.things": {"same": "json:dumps"}})
    second = install_entry_points({"posemill.things": {"same": "json:loads"}})
    (second / "outside-1.0.dist-info").rename(second / "another-1.0.dist-info")
    metadata = second / "another-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("outside", "another"))
    message = (
        r"two packages bring a thing 'same': another \(json:loads\) and outside .*uninstall one"
    )
    with pytest.raises(ConfigError, match=message):
        plugins.load("thing", {}, "same")
    assert plugins.names_of("thing", TABLE) == ["text", "gone", "old", "same"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("1 / 0", r"ZeroDivisionError: division by zero"),
        ("def broken(:", "SyntaxError: "),
        ("from posemill import no_such_name", "ImportError: cannot import name"),
        ("import sys; sys.no_such_thing", "AttributeError: module 'sys'"),
    ],
)
def test_a_package_that_cannot_be_imported_is_named_and_stops_nothing_else(
    install_entry_points, caplog, source, why
):
    folder = install_entry_points({"posemill.things": {"broken": f"broken_{len(why)}:Thing"}})
    (folder / f"broken_{len(why)}.py").write_text(source)
    message = (
        rf"thing 'broken' of the package 'outside' cannot be imported \({why}.*; update it, or "
    )
    with pytest.raises(ConfigError, match=message + "run: pip uninstall outside"):
        plugins.load("thing", {}, "broken")
    assert list(dict(plugins.load_all("thing", {"text": "string:capwords"}))) == ["text"]
    assert "thing 'broken' of the package 'outside' cannot be imported" in caplog.text
