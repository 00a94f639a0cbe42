"""Command line: one command per function of the Python interface. Every command has `--json`.

Results go to standard output, progress and errors to standard error; an error is one line with its cause and its
remedy. Exit code 2 stands for an invalid call, 1 for any other failure (such as an unavailable database), 130 for
Ctrl-C.
"""

from __future__ import annotations

import sys

import click

from sameluck.cli.command_list import CommandGroup
from sameluck.errors import SameluckError


def run(arguments: list[str]) -> int:  # noqa: PLR0911 each error has its exit code
    """Run a command and return its exit code. Errors become messages here and nowhere else."""
    try:
        code = commands.main(arguments, prog_name="sameluck", standalone_mode=False)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" See: {context.command_path} --help" if context else ""
        return _print_error(error.format_message() + hint, 2)
    except SameluckError as error:
        return _print_error(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _print_error("interrupted; nothing was written", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader (`| head`) is gone; Python would report it again at exit
        return 0
    except OSError as error:
        return _print_error(f"cannot write: {error.strerror or error}", 1)
    except MemoryError:
        return _print_error("out of memory; use fewer replications, checkpoints or arms", 2)
    return code if isinstance(code, int) else 0


def _print_error(message: str, code: int) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return code


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(package_name="sameluck", message="sameluck %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Compare bandit algorithms on the same luck, for the price of one."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
