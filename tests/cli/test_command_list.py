"""A command is added in a module and in the list of commands."""

import os
import pkgutil
import runpy
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import sameluck
from sameluck import cli
from sameluck.cli.command_list import COMMANDS

SCRIPT = Path(__file__).parents[2] / "scripts" / "cli_docs.py"
find_command = runpy.run_path(str(SCRIPT))["find_command"]

TOP = '''
import click

@click.command("hello")
def hello_command():
    """Greet."""
    click.echo("hello")
'''
LIVE = '''
from sameluck.cli.live.store_options import live_command
from sameluck.cli.output import Output

@live_command("hello")
def hello_command(database):
    """Greet from a database."""
    return Output("hello", {"hello": database.url}, ["a note"])
'''


def run(*words, **settings):
    command = [sys.executable, "-m", "sameluck", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, **settings).stdout


@pytest.mark.slow
def test_a_command_needs_a_module_and_a_line_in_the_list(tmp_path):
    package = tmp_path / "sameluck"
    shutil.copytree(Path(sameluck.__file__).parent, package)
    (package / "cli" / "hello.py").write_text(TOP)
    (package / "cli" / "live" / "hello.py").write_text(LIVE)
    listed = package / "cli" / "command_list.py"
    lines = {
        '    "demo": "compare_commands",\n': '    "hello": "hello",\n',
        '    "live status": "live.monitoring",\n': '    "live hello": "live.hello",\n',
    }
    text = listed.read_text()
    for before, line in lines.items():
        assert before in text
        text = text.replace(before, line + before)
    listed.write_text(text)
    copied = {"env": {**os.environ, "PYTHONPATH": str(tmp_path)}, "cwd": tmp_path}

    assert run("hello", **copied) == "hello\n"
    assert run("live", "hello", **copied) == "hello\n"
    assert run("live", "hello", "--db", "sqlite:///a.db", "--json", **copied) == (
        '{\n  "hello": "sqlite:///a.db"\n}\n'
    )
    help = run("live", **copied).split("Commands:\n")[1]
    names = [line.split()[0] for line in help.splitlines()]
    assert names[names.index("tick") + 1] == "hello"


@pytest.mark.slow
def test_the_list_has_every_command_that_a_module_of_the_command_line_defines():
    defined = {}
    for found in pkgutil.walk_packages(cli.__path__, "sameluck.cli."):
        for value in vars(import_module(found.name)).values():
            if isinstance(value, click.Command):
                defined[value.name] = found.name
    assert {
        words.split()[-1]: f"sameluck.cli.{module}" for words, module in COMMANDS.items()
    } == defined


@pytest.mark.parametrize("words", COMMANDS)
def test_help_explains_the_command_and_each_of_its_options(words, capsys):
    command = find_command(words)
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]

    assert cli.run([*words.split(), "--help"]) == 0
    help = capsys.readouterr().out
    assert help.startswith(f"Usage: sameluck {words} ")
    assert command.help
    assert all(option.help for option in options)
    assert ("--json" in help) == (words not in {"live", "token"})
    assert "--db" in help or not words.startswith(("live ", "token "))


def test_an_unknown_command_is_refused(capsys):
    assert cli.run(["live", "lunch"]) == 2
    assert "No such command 'lunch'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_paper_is_imported_only_by_its_command():
    code = "import sys, sameluck.cli; sys.exit('sameluck.paper' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
