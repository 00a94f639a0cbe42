"""`sameluck live`: experiments on real users, from the first start to the decision."""

from __future__ import annotations

import click

from sameluck.cli.live.assign import (
    assign_command,
    expose_command,
    reward_command,
    tick_command,
    void_command,
)
from sameluck.cli.live.simulate import simulate_command
from sameluck.cli.live.start import (
    add_policy_command,
    import_command,
    pause_command,
    resume_command,
    start_command,
    stop_command,
)
from sameluck.cli.live.status import (
    doctor_command,
    export_command,
    results_command,
    status_command,
    trace_command,
)


class _InOrder(click.Group):
    """Lists its commands in the order in which one needs them."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.commands)


@click.group("live", cls=_InOrder, invoke_without_command=True)
@click.pass_context
def live_commands(context: click.Context) -> None:
    """Run an experiment on real users; try `sameluck live simulate` first.

    Experiments are kept in a database: --db sqlite:///file.db (one process writes at a time, any number may look)
    or --db postgresql://user@host/database (several processes serve). The variable SAMELUCK_DB says it once for all.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (
    simulate_command,
    start_command,
    assign_command,
    expose_command,
    reward_command,
    void_command,
    tick_command,
    status_command,
    results_command,
    doctor_command,
    trace_command,
    export_command,
    add_policy_command,
    import_command,
    pause_command,
    resume_command,
    stop_command,
):
    live_commands.add_command(_command)
