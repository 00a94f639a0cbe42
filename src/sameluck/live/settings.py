"""`StoreSettings`: who uses a store, and by which clock."""

from __future__ import annotations

import getpass
import os
import socket
import time
from typing import NamedTuple

from sameluck.live.options import Clock
from sameluck.validation import require_name

SECOND = 1_000_000  # microseconds
ACTOR_VARIABLE = "SAMELUCK_ACTOR"


def default_actor() -> str:
    """The variable SAMELUCK_ACTOR, or the user and the host of this process."""
    name = os.environ.get(ACTOR_VARIABLE)
    if name:
        require_name(ACTOR_VARIABLE, name)
        return name
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"[:200]


class StoreSettings(NamedTuple):
    """How the experiments of one store are used."""

    clock: Clock = time.time
    actor: str = ""  # for the history

    def now(self) -> int:
        """Microseconds since 1970."""
        return round(self.clock() * SECOND)
