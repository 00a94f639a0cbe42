"""Routes of the service, one module per family; discovery finds the `router` of each module."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module

from fastapi import FastAPI
from fastapi.routing import APIRoute

from sameluck.service.direct_route import DirectRoute


def add_routes(app: FastAPI) -> None:
    """Add the routes to an application in one list, the calls for users first: a request is matched in order."""
    routes = discovered_routes(__name__, __path__)
    routes.sort(key=lambda route: not isinstance(route, DirectRoute))
    app.router.routes.extend(routes)


def discovered_routes(package: str, path: Iterable[str]) -> list[APIRoute]:
    """Return the routes of every module of a package; the OpenAPI document names each after its function."""
    names = [f"{package}.{module.name}" for module in pkgutil.iter_modules(path)]
    routes = [route for name in names for route in import_module(name).router.routes]
    # FastAPI derives ids from paths, which generated clients would turn into awkward names.
    for route in routes:
        route.operation_id = route.unique_id = route.name
    return routes
