"""A process with edited code of a policy: it serves an experiment that others have started, as it is told."""

import json
import sys

from contract.versions import Edited

import sameluck as sl


def main():
    """One line per call: a method of the experiment and its arguments; the answer, or the error, on one line."""
    url, name, now = sys.argv[1:]
    store = sl.open(url, clock=lambda: float(now))
    try:
        store.load(name, makers={"own": Edited})
        print(json.dumps("loaded"), flush=True)
    except sl.Diverged as error:
        print(json.dumps(str(error)), flush=True)
    live = store.peek(name, makers={"own": Edited})
    for line in sys.stdin:
        method, arguments, options = json.loads(line)
        try:
            answer = getattr(live, method)(*arguments, **options)
        except sl.SameluckError as error:
            answer = error.code
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
