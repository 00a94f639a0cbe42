"""`PlainEngine`: an engine of the protocol alone."""

from sameluck.live.engine.replication import Scheduler


class PlainEngine:
    """Runs policies like a `Scheduler`, and tells nothing of its stacks."""

    admits_challengers = True
    deals = False
    arm_of, cells_of = Scheduler.arm_of, Scheduler.cells_of

    def __init__(self, *arguments):
        self._scheduler = Scheduler(*arguments)
        for name in ("experiment", "arm_names", "policies"):
            setattr(self, name, getattr(self._scheduler, name))

    def users(self, results):
        return self._scheduler.users(results)

    def start(self, number):
        state, wanted = self._scheduler.start(number)
        return self._derived(state), wanted

    def rebuild(self, *arguments):
        return self._derived(self._scheduler.rebuild(*arguments))

    def _derived(self, state):
        return PlainState(self, state)


class PlainState:
    """State of a replication without what stacks add to the protocol."""

    HIDDEN = ("walkers", "want_afresh", "all_audits")

    def __init__(self, engine, state):
        vars(self).update(engine=engine, state=state)

    def __getattr__(self, name):
        if name in self.HIDDEN:
            raise AttributeError(name)
        return getattr(self.state, name)

    def __setattr__(self, name, value):
        setattr(self.state, name, value)
