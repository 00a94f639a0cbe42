"""Pages of the dashboard, one module for each; discovery finds the `router` of each module."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from fastapi import FastAPI
from fastapi.routing import APIRoute

from sameluck.service.dashboard.overview import Overviews
from sameluck.service.dashboard.playground_simulations import Simulations
from sameluck.service.dashboard.sessions import Sessions
from sameluck.service.dashboard.visitors import LoginNeeded, login_page


def add_dashboard(app: FastAPI) -> None:
    """Add the pages to a service."""
    app.state.sessions = Sessions()
    app.state.overviews = Overviews()
    app.state.simulations = Simulations()
    app.add_exception_handler(LoginNeeded, login_page)
    names = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    routes: list[APIRoute] = [
        route for name in names for route in import_module(name).router.routes
    ]
    for route in routes:
        route.include_in_schema = False
    app.router.routes.extend(routes)
