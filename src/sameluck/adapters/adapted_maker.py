"""`AdaptedMaker`: the maker of a package's bandits, and what is checked of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sameluck.errors import Invalid, Missing, shown


@dataclass(frozen=True)
class AdaptedMaker:
    """A maker for `External` policies: a bandit of a package, made from a seed and given the methods that are called.

    It can be pickled if `make` can, and has the `version` that `make` declares, if any.
    """

    package: str
    make: Callable[[int], object]
    adapter: Callable[[Any, int], object]  # of `make` and the seed

    def __call__(self, seed: int) -> object:
        """A new bandit with `pull(arms)` and `update(arm, reward)`."""
        try:
            return self.adapter(self.make, seed)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == self.package:
                raise Missing(
                    f"{self.package} is not installed; run: pip install {self.package}"
                ) from error
            raise

    @property
    def version(self) -> object:
        """The version of the policy's code that the application declares."""
        return getattr(self.make, "version", None)


def adapted_maker(
    package: str, make: Callable[[int], object], adapter: Callable[[Any, int], object]
) -> AdaptedMaker:
    """The maker; `Invalid` unless `make` is a function."""
    if not callable(make):
        name = package.lower()
        raise Invalid(
            f"sl.adapters.{name} takes a function of a seed that returns a new bandit, got {shown(make)}; "
            f"write sl.adapters.{name}(lambda seed: ...)"
        )
    return AdaptedMaker(package, make, adapter)


def require_methods(bandit: object, names: Sequence[str], expected: str) -> None:
    """Raise `Invalid` unless a bandit has these methods."""
    lacking = [name for name in names if not callable(getattr(bandit, name, None))]
    if lacking:
        raise Invalid(
            f"make(seed) must return {expected}, got {type(bandit).__name__}, which has no {lacking[0]}"
        )


def require_arms(arms: Sequence[int], own: int) -> None:
    """Raise `Invalid` unless the experiment has as many arms as a bandit."""
    if len(arms) != own:
        raise Invalid(f"the bandit was made with {own} arms, but the experiment has {len(arms)}")
