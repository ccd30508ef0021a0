"""The `splitbrain` command: its group, and the one place where whatever happens becomes an exit code.

Exit codes are Jepsen's, as in `chaos.model.errors`; click's own collide with them (2 for a wrong option is our
*unknown*), so click never exits by itself here.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING

from chaos.startup import shadowed_package

if TYPE_CHECKING:
    import click

COMMANDS = {
    "init": "Write a commented scenario to start from.",
    "run": "Run a scenario, and say whether the broker kept its promises.",
    "suite": "Run many scenarios with many seeds, and say whether all came out as expected.",
    "claims": "Hold brokers to their promises: which design keeps which, under which fault.",
    "explore": "Run many seeds of a simulated scenario, to find what can go wrong.",
    "replay": "Run a stored run once more: the same history, or how often it recurs.",
    "shrink": "Make a run with an anomaly as small as can be, and a test of it.",
    "check": "Judge a stored run or a history file again.",
    "show": "Show a run's verdict and why.",
    "diff": "Show how two runs differ.",
    "list": "List runs, suites' runs, brokers, nemeses, workloads or checkers.",
    "trends": "Show how scenarios fare from night to night.",
    "gate": "Say whether what a suite showed is enough to release.",
    "export": "Write a table to a file that other tools read.",
    "ingest": "Make tables of a store of runs, or bring them up to date.",
    "prune": "Remove old runs from a store, and their rows from its tables.",
    "prove": "Explore every order of events that a protocol can meet within bounds.",
    "clean": "Remove containers and networks that runs left behind.",
    "doctor": "Say what this machine can do, and how to get what it can't.",
}
DEBUG = "SPLITBRAIN_DEBUG"


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: runs the command and exits."""
    problem = shadowed_package()
    if problem is not None:
        print(f"splitbrain: error: {problem}", file=sys.stderr)
        sys.exit(255)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not Unicode's
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # before a command began, or after its end
        code = 130
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it is over
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # whoever read our output is gone; let the interpreter not fall over that again at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or (255 if stream is sys.stdout else 0)
    sys.exit(code)


def _stop(number: int, frame: FrameType | None) -> None:
    """Whatever asks us to end does so as Ctrl-C does."""
    raise KeyboardInterrupt


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code. Errors are one line on stderr."""
    import click

    from chaos.model.errors import EXIT_BAD_INPUT, EXIT_ERROR, EXIT_INTERRUPTED, EXIT_VALID, SplitbrainError

    try:
        code = group().main(args=list(arguments), prog_name="splitbrain", standalone_mode=False)
        return code if isinstance(code, int) else EXIT_VALID
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "splitbrain"
        _say(f"{error.format_message().rstrip('.')}; see `{command} --help`")
        return EXIT_BAD_INPUT
    except click.ClickException as error:
        _say(error.format_message())
        return EXIT_BAD_INPUT
    except SplitbrainError as error:
        _say(str(error), error.tail)
        _debug(arguments)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return EXIT_INTERRUPTED
    except SystemExit:  # click's way, in any mode, when whoever read our output is gone; its code is our *invalid*
        return EXIT_ERROR
    except OSError as error:
        _say(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
        _debug(arguments)
        return EXIT_ERROR
    except Exception as error:
        _say(f"internal error: {type(error).__name__}: {error}{'' if _debugging(arguments) else _HOW}")
        _debug(arguments)
        return EXIT_ERROR


_HOW = "; `splitbrain --debug ...` (or SPLITBRAIN_DEBUG=1) shows where"


def group() -> click.Group:
    """The group of all commands. A command's module is imported when it is asked for, so that help is quick."""
    import click

    class Commands(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
            if name not in COMMANDS:
                return None
            command = import_module(f"chaos.cli.{name}").command
            assert isinstance(command, click.Command)
            return command

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            from chaos.model.errors import did_you_mean

            if args and args[0] not in COMMANDS and not args[0].startswith("-"):
                raise click.UsageError(f"no command {args[0]!r}; {did_you_mean(args[0], COMMANDS)}", ctx)
            return super().resolve_command(ctx, args)

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Commands"):
                formatter.write_dl(list(COMMANDS.items()))

    @click.group(
        cls=Commands,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        help="Chaos testing for message brokers: inject faults, record a history, decide whether the broker kept its "
        "promises.\n\nExit codes: 0 valid, 1 invalid, 2 unknown, 130 interrupted before a verdict, 254 bad arguments "
        "or input, 255 an error.",
    )
    @click.version_option(_version(), prog_name="splitbrain", message="%(prog)s %(version)s")
    @click.option("--debug", is_flag=True, help=f"Show where an error came from (also: {DEBUG}=1).")
    @click.pass_context
    def splitbrain(context: click.Context, debug: bool) -> None:
        if context.invoked_subcommand is None:
            click.echo(context.get_help())

    return splitbrain


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("splitbrain")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _say(message: str, tail: Sequence[str] = ()) -> None:
    from results.text import printable

    lines = [f"splitbrain: error: {message}", *(f"  | {line}" for line in tail)]
    with suppress(OSError):  # nobody reads it
        print("\n".join(printable(line) for line in lines), file=sys.stderr)


def _debugging(arguments: Sequence[str]) -> bool:
    return os.environ.get(DEBUG, "0") not in ("", "0") or "--debug" in arguments[:1]


def _debug(arguments: Sequence[str]) -> None:
    if _debugging(arguments):
        traceback.print_exc()
