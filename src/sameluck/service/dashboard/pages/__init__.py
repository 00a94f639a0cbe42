"""The pages of the dashboard, one module for each; a module's `router` is found by discovery."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from fastapi import APIRouter, FastAPI

from sameluck.service.dashboard.overview import Overviews
from sameluck.service.dashboard.sessions import Sessions
from sameluck.service.dashboard.visitors import LoginNeeded, login_page


def add_dashboard(app: FastAPI) -> None:
    """Add the pages to a service."""
    app.state.sessions = Sessions()
    app.state.overviews = Overviews()
    app.add_exception_handler(LoginNeeded, login_page)
    for module in pkgutil.iter_modules(__path__):
        router: APIRouter = import_module(f"{__name__}.{module.name}").router
        app.include_router(router, include_in_schema=False)
