"""Traffic of `sameluck serve --demo`, without its pauses and with a smaller experiment."""

import asyncio

import pytest

import sameluck as sl
from sameluck.service import demo
from sameluck.service.loaded_experiments import LoadedExperiments


@pytest.mark.slow
def test_the_demonstration_ends_with_a_result_of_every_policy(monkeypatch):
    monkeypatch.setattr(demo, "STEP_SECONDS", 1e-6)
    monkeypatch.setattr(demo, "DELAY_SECONDS", 1e-7)
    monkeypatch.setattr(demo, "CHALLENGER_AFTER", 2)
    monkeypatch.setattr(demo, "EXPERIMENT", demo.EXPERIMENT.replace(horizon=20, replications=7))
    with sl.open("sqlite://") as store:
        asyncio.run(demo.run_demo(LoadedExperiments(store)))
        live = store.peek(demo.NAME)
        assert live.status().status == "complete"
        assert live.runs().replications == 7
        assert list(live.experiment.policies) == ["ucb", "thompson", "greedy"]
        assert [change.what for change in live.history()][:2] == ["started", "policy added"]
        assert {change.actor for change in live.history()} >= {"demo"}
        assert live.status().users == live.status().settled


def test_the_demonstration_ends_when_somebody_stops_it(monkeypatch):
    monkeypatch.setattr(demo, "STEP_SECONDS", 1e-6)

    async def stopped(experiments):
        task = asyncio.create_task(demo.run_demo(experiments))
        while demo.NAME not in store.names():
            await asyncio.sleep(0.01)
        await experiments.change("me", demo.NAME, lambda live: live.stop(drain=False))
        await asyncio.wait_for(task, 20)

    with sl.open("sqlite://") as store:
        asyncio.run(stopped(LoadedExperiments(store)))
        assert store.peek(demo.NAME).status().status == "stopped"
