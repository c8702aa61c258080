"""The `posemill` command: joins the groups of commands, and turns our errors into exit codes.

Exit codes: 0 all done, 1 some clips failed, 2 wrong usage or a wrong world, 130 interrupted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import zip_longest
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from posemill import __version__
from posemill.api.spelling import to_flags
from posemill.cli.printing import print_written, say
from posemill.errors import PosemillError
from posemill.language import speak_to_click, split_help, translate, word
from posemill.settings import load_choices

# Each has `register(app)`. They import nothing heavy before a command runs.
# In the order in which `--help` shows them: as a user meets them.
_GROUPS: tuple[str, ...] = (
    "posemill.cli.demo",
    "posemill.cli.doctor",
    "posemill.cli.models",
    "posemill.cli.landmarks",
    "posemill.cli.extract",
    "posemill.cli.frames",
    "posemill.cli.runs",
    "posemill.cli.data",
    "posemill.cli.look",
    "posemill.cli.train",
    "posemill.cli.sweep",
)


def _usage(text: str) -> str:
    """Return a line of usage that begins with the reader's word for it."""
    return text.replace("Usage: ", word("Usage: "), 1)


class SpellingCommand(typer.core.TyperCommand):
    """Also takes `--two_words` for `--two-words`, `--splits a b` for two values, and old flags."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse after bringing every flag to the one spelling click knows."""
        repeatable = {
            name
            for parameter in self.params
            if getattr(parameter, "multiple", False)
            for name in parameter.opts
        }
        renamed = _new_flags(args, getattr(self.callback, "old_flags", {}))
        renamed = _with_values(renamed, getattr(self.callback, "bare_flags", {}))
        with _spoken_errors():
            return super().parse_args(ctx, _one_spelling(renamed, repeatable))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; errors name the flags that were given."""
        try:
            return super().invoke(ctx)
        except PosemillError as error:
            missing = {"out": "--out"} if str(error).split()[:2] == ["out", "is"] else {}
            error.args = (to_flags(str(error), _flags_given(self, ctx) | missing),)
            raise

    def get_usage(self, ctx: Any) -> str:
        """Return how it is called, for help and errors."""
        return _usage(super().get_usage(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage, `VIDEO...` for typer's `{VIDEO...}...`."""
        return [re.sub(r"^\{(.+?)\}(\.\.\.)?$", _plain_metavar, piece)
                for piece in super().collect_usage_pieces(ctx)]  # fmt: skip

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the names of every table (`{module:table}`) it speaks of."""
        say_help(self)
        _write_help(self, ctx, formatter)


class LazyCommands(dict[str, Any]):
    """Commands by name, each built when it is asked for: to build all takes a tenth of a second."""

    def __init__(self, builders: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__(dict.fromkeys(builders))
        self._builders = builders

    def __getitem__(self, name: str) -> Any:
        if super().__getitem__(name) is None:
            self[name] = self._builders[name]()
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a command, or the default if there is none of this name."""
        if name not in self:
            return default
        return self[name]

    def values(self) -> Any:
        """Return all commands."""
        return [self[name] for name in self]

    def items(self) -> Any:
        """Return all names and commands."""
        return [(name, self[name]) for name in self]


class SpeakingGroup(typer.core.TyperGroup):
    """A group of commands that speaks the language of the reader."""

    builders: Mapping[str, Callable[[], Any]] = {}

    def __init__(self, *, commands: Any = None, **options: Any) -> None:
        every = LazyCommands(self.builders)
        every.update(commands or {})
        super().__init__(commands=every, **options)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, without building them."""
        return list(self.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; errors are in the reader's language."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            print_written(ctx.get_help(), err=True)  # typer takes it as printed already
            raise typer.Exit(2)
        with _spoken_errors():
            return super().parse_args(ctx, args)

    def get_usage(self, ctx: Any) -> str:
        """Return how it is called, for help and errors."""
        return _usage(super().get_usage(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; errors are in the reader's language."""
        with _spoken_errors():
            return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        say_help(self)
        for command in self.commands.values():  # not its flags: their tables would be loaded
            command.help = word(command.help or "")
        _write_help(self, ctx, formatter)


def _plain_metavar(found: re.Match[str]) -> str:
    name = found[1].upper() if found[1].islower() else found[1]
    return name if name.endswith("...") else name + (found[2] or "")


_UsageError: Any = typer.BadParameter.__base__
_EXPECTED = {"int_parsing": "expected a whole number", "float_parsing": "expected a number"}


@contextmanager
def _spoken_errors() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        error = _with_value(error)
        if (said := translate(text := error.format_message())) == text:
            raise error from None
        raise _UsageError(said, error.ctx) from error


def _with_value(error: Any) -> Any:
    """Return the error with the value that was given, which typer's own words leave out."""
    problems: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()  # pydantic's
    if not problems:
        return error
    expected = _EXPECTED.get(problems[0]["type"], error.message)
    said = f"{expected}, got {problems[0]['input']!r}"
    return typer.BadParameter(said, error.ctx, error.param)


def _flags_given(command: Any, ctx: Any) -> dict[str, str]:
    """Return the flags of a command, by parameter, that its line has: the rest is of a file."""
    return {
        each.name: each.opts[0]
        for each in command.params
        if each.param_type_name == "option"
        and str(ctx.get_parameter_source(each.name)).endswith("COMMANDLINE")
    }


def _write_help(command: Any, ctx: Any, formatter: Any) -> None:
    from posemill.cli.help_page import help_page

    formatter.write(help_page(command, ctx))


def say_help(command: Any) -> None:
    """Put words of the reader, and the names of tables, into the help of a command."""
    command.help = word(command.help or "")
    for parameter in command.params:
        sentence, default, table = split_help(getattr(parameter, "help", None) or "")
        said = word(sentence) + (translate(f" (default: {word(default)})") if default else "")
        if table:
            said += " " + word("One of: {0}.").format(", ".join(load_choices(table)))
        parameter.help = said
        if panel := getattr(parameter, "rich_help_panel", None):
            parameter.rich_help_panel = word(panel)


def _new_flags(args: list[str], old: Mapping[str, str]) -> list[str]:
    """Return args with our flags for those of other programs and of earlier versions."""
    result: list[str] = []
    prefix = ""
    for position, arg in enumerate(args):
        if arg == "--":
            return result + args[position:]
        flag, equals, value = arg.partition("=")
        flag = flag.replace("_", "-")
        if flag in old and not prefix:
            new, _, prefix = old[flag].partition(" ")
            new, _, whole = new.partition("=")
            if whole:
                result += [new, whole]
                continue
            result += [new, prefix + value] if equals else [new]
            prefix = "" if equals else prefix
        else:
            result.append(prefix + arg)
            prefix = ""
    return result


def _with_values(args: list[str], bare: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return args with the first of its values behind each flag that stands without one."""
    result: list[str] = []
    for arg, after in zip_longest(args, args[1:], fillvalue=""):
        result.append(arg)
        if arg in bare and after not in bare[arg]:
            result.append(bare[arg][0])
    return result


def _one_spelling(args: list[str], repeatable: set[str]) -> list[str]:
    """Return args with dashes in flags, and `--splits a b` as `--splits a --splits b`."""
    result: list[str] = []
    current = None
    for position, arg in enumerate(args):
        if arg == "--":
            return result + args[position:]
        if arg.startswith("--"):
            name, equals, value = arg.partition("=")
            name = name.replace("_", "-")
            current = name if name in repeatable and not equals else None
            result.append(name + equals + value)
        elif current and result[-1] != current and not arg.startswith("-"):
            result += [current, arg]
        else:
            result.append(arg)
    return result


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"posemill {__version__}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """Return the whole command line."""
    app = typer.Typer(
        name="posemill",
        cls=SpeakingGroup,
        help="From pictures and video to pose keypoints, to model input, to a trained model.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=_print_version, is_eager=True, help="Say the version."
            ),
        ] = False,
        debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    ) -> None:
        pass

    for group in _GROUPS:
        import_module(group).register(app)
    _use_spelling_command(app)
    builders = {
        command.name or typer.main.get_command_name(command.callback.__name__): partial(
            typer.main.get_command_from_info,
            command,
            pretty_exceptions_short=app.pretty_exceptions_short,
            rich_markup_mode=app.rich_markup_mode,
        )
        for command in app.registered_commands
        if command.callback is not None
    }
    app.info.cls = type("RootGroup", (SpeakingGroup,), {"builders": builders})
    app.registered_commands = []
    return app


def _use_spelling_command(app: typer.Typer) -> None:
    for command in app.registered_commands:
        command.cls = SpellingCommand
    for group in app.registered_groups:
        group.cls = SpeakingGroup
        if group.typer_instance is not None:
            _use_spelling_command(group.typer_instance)


def main(args: list[str] | None = None) -> Any:
    """Run the command line; the entry point of `posemill`."""
    arguments = sys.argv[1:] if args is None else args
    speak_to_click()
    try:
        return build_app()(args=arguments, prog_name="posemill")
    except PosemillError as error:
        if "--debug" in arguments:
            raise
        say(f"posemill: {error}", err=True, colour="red")
        sys.exit(error.exit_code)
    except OSError as error:
        # What no module expects, such as a folder that may not be entered, or a full disk.
        if "--debug" in arguments or error.errno is None:
            raise
        where = f"{error.filename}: " if error.filename is not None else ""
        say(f"posemill: {where}{error.strerror}", err=True, colour="red")
        sys.exit(PosemillError.exit_code)
    except (KeyboardInterrupt, SystemExit) as error:
        # Typer turns an interrupt into a silent exit.
        code = getattr(error, "code", 130)
        if code == 130:
            say("posemill: interrupted", err=True)
        sys.exit(code)
