"""A process that rewards and sweeps when told to, in several threads at once, and says what it heard and when."""

import json
import sys
import threading
import time

import sameluck as sl


class Racer:
    """One process's share in a race."""

    def __init__(self, url, name):
        self.now = 0.0
        self.store = sl.open(url, clock=lambda: self.now)
        self.live = self.store.load(name)
        self.heard = []

    def run(self, command):
        """Each thread has its rewards to report, or none: then it sweeps until nothing is due."""
        self.now, self.heard = command["now"], []
        threads = [
            threading.Thread(target=self.report if rewards else self.sweep, args=[rewards])
            for rewards in command["threads"]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.heard

    def report(self, rewards):
        for id, value in rewards:
            began = time.monotonic()
            answer = self.answer(id, value)
            self.heard.append([id, value, answer, began, time.monotonic()])

    def answer(self, id, value):
        try:
            receipt = self.live.reward(id, value)
        except sl.Conflict as conflict:
            return conflict.code
        return "applied" if receipt.applied else "duplicate"

    def sweep(self, _):
        while self.live.tick():
            pass


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
