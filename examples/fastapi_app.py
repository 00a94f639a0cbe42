"""Shop with FastAPI.

uvicorn fastapi_app:app

Several workers (--workers) need PostgreSQL: SHOP_DB=postgresql://user@host/database. Each opens the store itself.
"""

import os
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import JSONResponse

import sameluck as sl

TIMEOUT = float(
    os.environ.get("SHOP_TIMEOUT", "0.25")
)  # seconds until a user gets the fallback arm
EXPERIMENT = sl.Experiment(
    policies={"ucb": sl.UCB1(alpha=2.0), "thompson": sl.ThompsonBernoulli()},
    arms=["red", "green", "blue"],
    horizon=100,
    replications=6,
)


@asynccontextmanager
async def lifespan(app):
    async with sl.open_async(
        os.environ.get("SHOP_DB", "sqlite:///shop.db"),
        timeout=TIMEOUT,
    ) as store:
        app.state.live = await store.start("socks", EXPERIMENT, exist_ok=True)
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/visits/{unit}")
async def visit(unit: str):
    assignment = await app.state.live.assign(unit)
    return {"id": assignment.id, "arm": assignment.arm}


@app.post("/purchases/{id}/{value}")
async def purchase(id: str, value: float):
    try:
        receipt = await app.state.live.reward(id, value)
    except (sl.Conflict, sl.Unknown) as error:  # the reward does not count
        return JSONResponse({"error": error.code}, 409)
    except sl.Unavailable:  # the client keeps the reward and repeats the call
        return JSONResponse({"error": "unavailable"}, 503)
    return {"duplicate": receipt.duplicate}
