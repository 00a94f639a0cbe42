"""A process that reports rewards and calls `tick` in several threads at once and prints the timed results."""

import json
import sys
import threading
import time

import sameluck as sl


class Racer:
    """One process of a race."""

    def __init__(self, url, name):
        self.clock = sl.VirtualClock()
        self.store = sl.open(url, clock=self.clock)
        self.live = self.store.load(name)
        self.results = []

    def run(self, command):
        """One thread per list of rewards to report; with an empty list it calls `tick` until nothing is due."""
        self.clock.seconds, self.results = command["now"], []
        report = self.report_list if command.get("lists") else self.report
        threads = [
            threading.Thread(target=report if rewards else self.sweep, args=[rewards])
            for rewards in command["threads"]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.results

    def report(self, rewards):
        for id, value in rewards:
            began = time.monotonic()
            answer = self.answer(id, value)
            self.results.append([id, value, answer, began, time.monotonic()])

    def report_list(self, rewards):
        began = time.monotonic()
        answers = self.live.reward_many(rewards)
        ended = time.monotonic()
        for (id, value), answer in zip(rewards, answers, strict=True):
            self.results.append([id, value, outcome_of(answer), began, ended])

    def answer(self, id, value):
        try:
            return outcome_of(self.live.reward(id, value))
        except sl.Conflict as conflict:
            return outcome_of(conflict)

    def sweep(self, _):
        while self.live.tick():
            pass


def outcome_of(answer):
    if isinstance(answer, sl.SameluckError):
        return answer.code
    return "applied" if answer.applied else "duplicate"


def main():
    """Serve one experiment after the other: a line with its URL and name begins one, an empty list ends it."""
    racer = None
    for line in sys.stdin:
        command = json.loads(line)
        if isinstance(command, dict):
            answer = racer.run(command)
        else:
            if racer is not None:
                racer.store.close()
            racer = Racer(*command) if command else None
            answer = "ready"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
