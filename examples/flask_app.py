"""Shop with Flask.

gunicorn --preload --workers 4 --threads 8 flask_app:app

Several processes need PostgreSQL: SHOP_DB=postgresql://user@host/database. With SQLite, use one worker and no
--preload.
"""

import os

from flask import Flask

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

app = Flask(__name__)
store = sl.open(
    os.environ.get("SHOP_DB", "sqlite:///shop.db"),
    timeout=TIMEOUT,
)
live = store.start("socks", EXPERIMENT, exist_ok=True)


@app.post("/visits/<unit>")
def visit(unit):
    assignment = live.assign(unit)
    return {"id": assignment.id, "arm": assignment.arm}


@app.post("/purchases/<id>/<float:value>")
def purchase(id, value):
    try:
        receipt = live.reward(id, value)
    except (sl.Conflict, sl.Unknown) as error:  # the reward does not count
        return {"error": error.code}, 409
    except sl.Unavailable:  # the client keeps the reward and repeats the call
        return {"error": "unavailable"}, 503
    return {"duplicate": receipt.duplicate}
