"""The command line: the words of the Python surface as commands. Every command has `--json`.

Results go to standard output, progress and errors to standard error: one line that says what was wrong and what to
do. Exit code 2 is bad input, 1 what is not the caller's fault (a database that cannot be used just now), 130 Ctrl-C.
"""

from __future__ import annotations

import sys
from importlib.metadata import version

import click

from sameluck.cli.compare import compare_command, demo_command, designs_command
from sameluck.cli.live import live_commands
from sameluck.cli.paper import paper_command
from sameluck.cli.plan import plan_command, race_command
from sameluck.cli.policies import environments_command, policies_command
from sameluck.errors import SameluckError


def run(arguments: list[str]) -> int:  # noqa: PLR0911 a code for each way it may end
    """Run one command; returns the exit code. The only place where errors become lines."""
    try:
        code = commands.main(arguments, prog_name="sameluck", standalone_mode=False)
    except click.ClickException as error:
        return _complain(error.format_message() + _where_to_look(error), 2)
    except SameluckError as error:
        return _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _complain("interrupted; nothing was written", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader (`| head`) has gone; Python would complain once more on exit
        return 0
    except OSError as error:
        return _complain(f"cannot write: {error.strerror or error}", 1)
    except MemoryError:
        return _complain("out of memory; ask for fewer replications, checkpoints or arms", 2)
    return code if isinstance(code, int) else 0


def _where_to_look(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f" See: {context.command_path} --help" if context else ""


def _complain(message: str, code: int) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return code


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(version("sameluck"), message="sameluck %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Compare bandit algorithms on the same luck, for the price of one."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (
    compare_command,
    designs_command,
    plan_command,
    race_command,
    live_commands,
    paper_command,
    demo_command,
    policies_command,
    environments_command,
):
    commands.add_command(_command)
