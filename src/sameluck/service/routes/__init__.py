"""The routes of the service, one module per family; a module's `router` is found by discovery."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from fastapi import APIRouter


def routers() -> list[APIRouter]:
    """The routers of all modules of this package."""
    names = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    return [import_module(name).router for name in names]
