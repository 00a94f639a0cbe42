"""Pages of the dashboard, one module for each; discovery finds the `router` of each module."""

from __future__ import annotations

from fastapi import FastAPI

from sameluck.service.dashboard.overview import Overviews
from sameluck.service.dashboard.playground_simulations import Simulations
from sameluck.service.dashboard.visitors import LoginNeeded, Sessions, redirect
from sameluck.service.routes import discovered_routes


def add_dashboard(app: FastAPI) -> None:
    app.state.sessions = Sessions()
    app.state.overviews = Overviews()
    app.state.simulations = Simulations()
    app.add_exception_handler(LoginNeeded, lambda _request, _error: redirect("/login"))
    routes = discovered_routes(__name__, __path__)
    for route in routes:
        route.include_in_schema = False
    app.router.routes.extend(routes)
