"""Machine code on disk: a file per loop and signature, so that later processes do not compile again.

A loop's machine code contains the functions that it calls for the types of its arguments. The folder is named after a
hash of sameluck's compiled sources, and a file after everything else that machine code depends on. A file is
therefore never stale. A loop that calls a user's function is compiled in each process and not kept. A damaged file is
compiled and written anew; without a writable folder nothing is kept.
"""

from __future__ import annotations

import atexit
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

from sameluck.compilation.functions import Function, is_builtin
from sameluck.files import write_whole

NumbaObject: TypeAlias = Any  # signatures, targets and results, which Numba does not annotate

_PACKAGE = Path(__file__).parent.parent
_SUFFIX = ".machinecode"
_CHECKSUM = 32  # bytes
log = logging.getLogger("sameluck")


class NotKept(Exception):
    """Reason why machine code is not kept on disk."""


class MachineCode:
    """Stored machine code of one loop, which a dispatcher calls in place of Numba's own cache.

    Numba's index refers to all classes of all signatures, and its file numbers are assigned without a lock.
    """

    def __init__(self, loop: Function) -> None:
        self.loop = loop

    def load_overload(self, signature: NumbaObject, target: NumbaObject) -> NumbaObject:
        """Return the compiled loop for a signature; None if it is not stored."""
        try:
            return _read(self._path(signature, target), signature, target)
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever a damaged file leads to
            log.debug("%s is compiled in this process: %s", self.loop.__qualname__, error)
            return None

    def save_overload(self, signature: NumbaObject, result: NumbaObject) -> None:
        """Store a compiled loop, if that is possible."""
        try:
            _write(self._path(signature, result.target_context), signature, result)
        except Exception as error:  # a full disk, say
            log.debug("%s is not kept on disk: %s", self.loop.__qualname__, error)

    def _path(self, signature: NumbaObject, target: NumbaObject) -> Path:
        for parameters in _classes(signature):
            # The class under which a user's function is compiled is in no module: it exists in this process only.
            module, class_name = sys.modules[parameters.__module__], parameters.__name__
            if not is_builtin(parameters) or getattr(module, class_name, 0) is not parameters:
                raise NotKept(f"{class_name} is not a class of sameluck")
        module_name, name = self.loop.__module__, self.loop.__qualname__
        key = (module_name, name, str(signature), target.codegen().magic_tuple(), _versions())
        digest = _checksum(repr(key).encode()).hex()
        return cache_directory() / f"{name.strip('_')}-{digest}{_SUFFIX}"


def _read(path: Path, signature: NumbaObject, target: NumbaObject) -> NumbaObject:
    from llvmlite.binding import address_of_symbol
    from numba.core.compiler import CompileResult

    content = path.read_bytes()
    checksum, stored = content[:_CHECKSUM], content[_CHECKSUM:]
    if checksum != _checksum(stored):
        raise NotKept(f"{path} is damaged")
    stored_signature, symbols, parts = pickle.loads(stored)
    if stored_signature != signature:
        raise NotKept(f"{path} is of another signature")
    # Refreshing takes half of the time to load a loop, and few loops need the symbols that it provides.
    if None in map(address_of_symbol, symbols):
        target.refresh()
    return CompileResult._rebuild(target, *parts)


def _write(path: Path, signature: NumbaObject, result: NumbaObject) -> None:
    from numba.core.serialize import dumps

    if result.lifted or result.library.has_dynamic_globals:
        raise NotKept("it contains addresses of this process")
    stored = dumps((signature, _external_symbols(result.library), result._reduce()))
    write_whole(path, _checksum(stored) + stored)


def _external_symbols(library: NumbaObject) -> list[str]:
    """Return the functions and variables that machine code finds in the process that loads it."""
    module = library._final_module
    symbols = itertools.chain(module.functions, module.global_variables)
    names = {symbol.name for symbol in symbols if symbol.is_declaration}
    return sorted(name for name in names if not name.startswith("llvm."))


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM).digest()


def _classes(signature: NumbaObject) -> Iterator[type]:
    """Yield the classes of the NamedTuples in a signature; raise `NotKept` for types without a unique name."""
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


def compiled_sources(package: Path = _PACKAGE) -> list[Path]:
    """Return every source on which machine code depends.

    These are the modules that import the decorators, their neighbours in the same folder, and this folder.
    """
    decorated = b"sameluck.compilation.decorators import"
    decorating = [path for path in package.rglob("*.py") if decorated in path.read_bytes()]
    folders = {source.parent for source in decorating} - {package} | {package / "compilation"}
    return sorted({*decorating, *(path for folder in folders for path in folder.glob("*.py"))})


@cache
def cache_directory() -> Path:
    """Return the folder of machine code in the user's cache, named after the hash of the sources."""
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
    # Never a shared folder with a predictable name: machine code in the cache is executed.
    folder = tempfile.mkdtemp(prefix="sameluck-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
