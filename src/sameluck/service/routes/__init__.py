"""The routes of the service, one module per family; a module's `router` is found by discovery."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from fastapi import FastAPI
from fastapi.routing import APIRoute

from sameluck.service.direct_routes import DirectRoute, DirectRoutes


def add_routes(app: FastAPI) -> None:
    """Add the routes to an application, in one list, in which a request is matched once; direct ones come first."""
    routes = discovered_routes()
    app.router.routes.extend(routes)
    direct = [route for route in routes if isinstance(route, DirectRoute)]
    app.add_middleware(DirectRoutes, routes=direct)


def discovered_routes() -> list[APIRoute]:
    """The routes of all modules of this package, each called after its function in the OpenAPI document."""
    names = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    routes: list[APIRoute] = [
        route for name in names for route in import_module(name).router.routes
    ]
    for route in routes:
        route.operation_id = route.unique_id = route.name
    return routes
