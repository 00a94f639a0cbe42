"""Builds reference.c and plays the paper's examples with it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("reference.c")
COMPILE = ["gcc", "-O3", "-march=native", "-shared", "-fPIC"]
# sameluck never fuses a multiplication with an addition, whose last bit would depend on the processor.
KINDS = {"C": ["-DADDRESSED", "-ffp-contract=off"], "C xoshiro": []}


class Job(ctypes.Structure):
    """The C side's `Job`."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("seed", "reward_owner", "noise_owner")),
        *((name, ctypes.c_int64) for name in ("first", "replications", "horizon")),
        *((name, ctypes.c_void_p) for name in ("earned", "pulls")),
    ]


def build(folder: Path) -> dict[str, ctypes.CDLL]:
    """The two libraries by name; none where there is no gcc."""
    if shutil.which("gcc") is None:
        return {}
    libraries = {}
    for kind, flags in KINDS.items():
        library = folder / f"{kind.replace(' ', '-')}.so"
        subprocess.run([*COMPILE, *flags, "-o", str(library), str(SOURCE), "-lm"], check=True)
        libraries[kind] = ctypes.CDLL(str(library))
    return libraries


def play(library, example, role, arms, owners, replications, horizon):
    """Rewards (replication,) and pulls (replication, arm) of one policy of an example."""
    earned, pulls = np.empty(replications), np.empty((replications, arms), np.int64)
    job = Job(*owners, 0, replications, horizon, earned.ctypes.data, pulls.ctypes.data)
    getattr(library, f"example{example}_{role}")(ctypes.byref(job))
    return earned, pulls
