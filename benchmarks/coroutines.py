"""Many coroutines of one event loop that assign and reward, and how long the loop is held up meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import count

import sameluck as sl

BEAT = 0.005  # seconds between two looks at the loop


class Coroutines:
    """Users of an experiment, served by coroutines; a deadline of 5 seconds, so that each is enrolled."""

    def __init__(self, url, experiment, options, means):
        self.url, self.experiment, self.options, self.means = url, experiment, options, means

    def run(self, callers, seconds):
        """Calls, seconds, the latency of each call, and by how much a beat of the loop was late."""
        return asyncio.run(self._run(callers, seconds))

    async def _run(self, callers, seconds):
        async with sl.open_async(self.url, timeout=5) as store:
            live = await store.start("bench", self.experiment, options=self.options)
            await self._serve(live, callers, 0.3, "first")
            beats = []
            beat = asyncio.create_task(_beat(beats))
            begin = time.perf_counter()
            latencies = await self._serve(live, callers, seconds, "user")
            taken = time.perf_counter() - begin
            beat.cancel()
        return len(latencies), taken, latencies, sorted(beats)

    async def _serve(self, live, callers, seconds, name):
        latencies, end = [], time.perf_counter() + seconds

        async def serve(k):
            generator = random.Random(k)
            for number in count():
                if time.perf_counter() >= end:
                    return
                begin = time.perf_counter()
                given = await live.assign(f"{name}-{k}-{number}")
                middle = time.perf_counter()
                assert given.enrolled, given
                value = float(generator.random() < self.means[int(given.arm)])
                between = time.perf_counter()
                await live.reward(given.id, value)
                latencies.extend((middle - begin, time.perf_counter() - between))

        await asyncio.gather(*(serve(k) for k in range(callers)))
        return latencies


async def _beat(beats):
    while True:
        begin = time.perf_counter()
        await asyncio.sleep(BEAT)
        beats.append(time.perf_counter() - begin - BEAT)
