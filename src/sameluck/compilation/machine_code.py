"""Machine code on disk: a file per loop and signature, so that later processes do not compile again.

A loop's machine code contains the bodies that it calls for the types of its arguments. The folder is named after a
digest of sameluck's compiled sources, a user's class after a digest of its bodies (`body_digests`), and a file after
the rest of what machine code depends on. A file is therefore never stale. One that cannot be read is compiled and
written anew; without a folder that can be written to, nothing is kept.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import logging
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from sameluck.compilation.body_digests import has_digest, why_no_digest
from sameluck.compilation.functions import Function, is_builtin
from sameluck.files import write_whole

NumbaObject: TypeAlias = Any  # signatures, targets and results, which Numba does not annotate

_PACKAGE = Path(__file__).parent.parent
_SUFFIX = ".machinecode"
_OWN = "own"  # the folder of loops with a user's bodies
_MOST_BYTES = 2**28  # of such loops, of all versions of sameluck
_CHECKSUM = 32  # bytes
_EXTENDING = {"numba", "sameluck", "abc", "None"}  # Numba gives some of its own functions no module
_extended_by: dict[tuple[int, ...], list[str]] = {}  # by how many extensions there are
log = logging.getLogger("sameluck")


class NotKept(Exception):
    """Why machine code is not kept on disk."""


class MachineCode:
    """The stored machine code of one loop, in place of Numba's own cache, as which a dispatcher calls it.

    Numba's index refers to all classes of all signatures, and its file numbers are assigned without a lock.
    """

    def __init__(self, loop: Function) -> None:
        self.loop = loop

    def load_overload(self, signature: NumbaObject, target: NumbaObject) -> NumbaObject:
        """The compiled loop for a signature; None if it is not there."""
        try:
            return _read(self._path(signature, target), signature, target)
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever a damaged file leads to
            log.debug("%s is compiled in this process: %s", self.loop.__qualname__, error)
            return None

    def save_overload(self, signature: NumbaObject, result: NumbaObject) -> None:
        """Keep a compiled loop, if that is possible."""
        try:
            _write(self._path(signature, result.target_context), signature, result)
        except Exception as error:  # a full disk, say
            log.debug("%s is not kept on disk: %s", self.loop.__qualname__, error)

    def _path(self, signature: NumbaObject, target: NumbaObject) -> Path:
        own = False
        for kind in _classes(signature):
            if has_digest(kind):
                own = True
            elif (
                not is_builtin(kind)
                or getattr(sys.modules[kind.__module__], kind.__name__, 0) is not kind
            ):
                raise NotKept(f"{kind.__name__}: {why_no_digest(kind)}")
        folder = cache_directory()
        if own:
            folder /= _OWN
            _check_extensions()
        name = self.loop.__qualname__
        key = (
            self.loop.__module__,
            name,
            str(signature),
            target.codegen().magic_tuple(),
            _versions(),
        )
        return folder / f"{name.strip('_')}-{_checksum(repr(key).encode()).hex()}{_SUFFIX}"


def _read(path: Path, signature: NumbaObject, target: NumbaObject) -> NumbaObject:
    from llvmlite.binding import address_of_symbol
    from numba.core.compiler import CompileResult

    content = path.read_bytes()
    checksum, stored = content[:_CHECKSUM], content[_CHECKSUM:]
    if checksum != _checksum(stored):
        raise NotKept(f"{path} is damaged")
    of, symbols, parts = pickle.loads(stored)
    if of != signature:
        raise NotKept(f"{path} is of another signature")
    # It takes half of the time to load a loop, and few loops need what it provides.
    if None in map(address_of_symbol, symbols):
        target.refresh()
    if path.parent.name == _OWN:
        with contextlib.suppress(OSError):
            os.utime(path)  # the least recently used are removed
    return CompileResult._rebuild(target, *parts)


def _write(path: Path, signature: NumbaObject, result: NumbaObject) -> None:
    from numba.core.serialize import dumps

    if result.lifted or result.library.has_dynamic_globals:
        raise NotKept("it contains addresses of this process")
    stored = dumps((signature, _external_symbols(result.library), result._reduce()))
    path.parent.mkdir(exist_ok=True)
    write_whole(path, _checksum(stored) + stored)
    if path.parent.name == _OWN:
        _remove_least_recent()


def _external_symbols(library: NumbaObject) -> list[str]:
    """The functions and variables that machine code finds in the process that loads it."""
    module = library._final_module
    every = itertools.chain(module.functions, module.global_variables)
    names = {each.name for each in every if each.is_declaration}
    return sorted(name for name in names if not name.startswith("llvm."))


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM).digest()


def _classes(signature: NumbaObject) -> Iterator[type]:
    """The classes of the NamedTuples in a signature; raises `NotKept` for types whose names do not say all."""
    types: NumbaObject = import_module("numba.core.types")
    if isinstance(signature, types.BaseNamedTuple):
        yield signature.instance_class
    if isinstance(signature, tuple | types.BaseTuple):
        for entry in signature:
            yield from _classes(entry)
        return
    plain = signature.dtype if isinstance(signature, types.Array) else signature
    if not isinstance(plain, types.Number | types.Boolean | types.NoneType | types.UnicodeType):
        raise NotKept(f"it takes {signature}")


@cache
def _versions() -> tuple[object, ...]:
    import llvmlite
    import numba

    settings = sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
    return sys.version, np.__version__, numba.__version__, llvmlite.__version__, settings


def _check_extensions() -> None:
    """Raise `NotKept` if the user has told Numba how to compile a function of NumPy, say: it has no digest."""
    from numba.core import imputils
    from numba.core.typing import templates

    typing, lowering = templates.builtin_registry, imputils.builtin_registry
    lists = (typing.functions, typing.attributes, lowering.functions, lowering.getattrs)
    key = tuple(map(len, lists))
    if key not in _extended_by:
        makers = [getattr(each, "_overload_func", each) for each in itertools.chain(*lists[:2])]
        makers += [each[0] for each in itertools.chain(*lists[2:])]
        roots = {str(maker.__module__).partition(".")[0] for maker in makers}
        _extended_by[key] = sorted(roots - _EXTENDING)
    if _extended_by[key]:
        raise NotKept(f"Numba is extended by {', '.join(_extended_by[key])}")


def _remove_least_recent() -> None:
    if cache_directory().parent != _user_cache():
        return
    found = []
    for path in _user_cache().glob(f"{'?' * 16}/{_OWN}/*{_SUFFIX}"):
        with contextlib.suppress(OSError):  # another process removes them too
            status = path.stat()
            found.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size


def compiled_sources(package: Path = _PACKAGE) -> list[Path]:
    """Every source on which machine code depends.

    Those that import the decorators, their neighbours in the same folder, and this folder, which compiles them.
    """
    decorated = b"sameluck.compilation.decorators import"
    decorating = [p for p in package.rglob("*.py") if decorated in p.read_bytes()]
    folders = {source.parent for source in decorating} - {package} | {package / "compilation"}
    return sorted({*decorating, *(p for folder in folders for p in folder.glob("*.py"))})


@cache
def cache_directory() -> Path:
    """Where machine code is kept: a folder of the user's cache named after the digest of the sources."""
    import numba

    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for source in compiled_sources():
        digest.update(source.read_bytes())
    try:
        folder = _user_cache() / digest.hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # read-only, or no home at all
        return _private_folder()
    return folder if os.access(folder, os.W_OK) else _private_folder()


def _user_cache() -> Path:
    if folder := os.environ.get("SAMELUCK_CACHE_DIR"):
        return Path(folder)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "sameluck" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sameluck"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sameluck"


def _private_folder() -> Path:
    # Never a shared folder of a known name: machine code in the cache is run.
    folder = tempfile.mkdtemp(prefix="sameluck-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
