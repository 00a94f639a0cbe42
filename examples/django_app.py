"""Shop with Django, in one file.

gunicorn --workers 1 --threads 8 django_app:application

Several processes need PostgreSQL: SHOP_DB=postgresql://user@host/database. In a project, put the store into a
module of its own that the views import.
"""

import os

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST

import sameluck as sl

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("SHOP_KEY", "only for trying"),
)
django.setup()

TIMEOUT = float(
    os.environ.get("SHOP_TIMEOUT", "0.25")
)  # seconds until a user gets the fallback arm
EXPERIMENT = sl.Experiment(
    policies={"ucb": sl.UCB1(alpha=2.0), "thompson": sl.ThompsonBernoulli()},
    arms=["red", "green", "blue"],
    horizon=100,
    replications=6,
)

store = sl.open(
    os.environ.get("SHOP_DB", "sqlite:///shop.db"),
    timeout=TIMEOUT,
)
live = store.start("socks", EXPERIMENT, exist_ok=True)


@require_POST
def visit(request, unit):
    assignment = live.assign(unit)
    return JsonResponse({"id": assignment.id, "arm": assignment.arm})


@require_POST
def purchase(request, id, value):
    try:
        receipt = live.reward(id, float(value))
    except (sl.Conflict, sl.Unknown) as error:  # the reward does not count
        return JsonResponse({"error": error.code}, status=409)
    except sl.Unavailable:  # the client keeps the reward and repeats the call
        return JsonResponse({"error": "unavailable"}, status=503)
    return JsonResponse({"duplicate": receipt.duplicate})


urlpatterns = [path("visits/<unit>", visit), path("purchases/<id>/<value>", purchase)]
application = get_wsgi_application()
