"""A command is found by discovery: its module is all that is added."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sameluck

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

HELP_POSITION = 3.5

@live_command("hello")
def hello_command(database):
    """Greet from a database."""
    return Output("hello", {"hello": database.url}, ["a note"])
'''


def run(*words, **settings):
    command = [sys.executable, "-m", "sameluck", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, **settings).stdout


@pytest.mark.slow
def test_a_new_module_is_a_new_command(tmp_path):
    package = tmp_path / "sameluck"
    shutil.copytree(Path(sameluck.__file__).parent, package)
    (package / "cli" / "hello.py").write_text(TOP)
    (package / "cli" / "live" / "hello.py").write_text(LIVE)
    copied = {"env": {**os.environ, "PYTHONPATH": str(tmp_path)}, "cwd": tmp_path}

    assert run("hello", **copied) == "hello\n"
    assert run("live", "hello", **copied) == "hello\n"
    assert run("live", "hello", "--db", "sqlite:///a.db", "--json", **copied) == (
        '{\n  "hello": "sqlite:///a.db"\n}\n'
    )
    listed = [
        line.split()[0] for line in run("live", **copied).split("Commands:\n")[1].splitlines()
    ]
    assert listed[listed.index("tick") + 1] == "hello"  # by its HELP_POSITION


@pytest.mark.slow
def test_the_paper_is_imported_only_by_its_command():
    code = "import sys, sameluck.cli; sys.exit('sameluck.paper' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
