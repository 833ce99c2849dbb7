"""Loads a scheduler of an installed release for policy.own with an engine."""
from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import pathlib
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from twinserve import _policy_file
from twinserve._native import InputError
from twinserve.engines import RELEASES, absent
from twinserve.engines.environment import Environment
from twinserve.engines.systems import VLLM
from twinserve.policy import Policy

_used: list[str] = []  # the release of this process


def folder() -> pathlib.Path:
    """Where releases are installed."""
    asked = os.environ.get("TWINSERVE_ENGINES")
    if asked:
        return pathlib.Path(asked)
    data = os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share"
    return pathlib.Path(data) / "twinserve/engines"


def place_of(engine: str, say: Callable[[str], None] = lambda text: None) -> Environment:
    """Where a release is or will be installed. Raises InputError for one that is not promised."""
    name, _, version = engine.partition("==")
    if engine not in RELEASES:
        what = f"{engine} is not followed" if name == VLLM.package and version else f"is {engine}"
        raise InputError(f"policy.own.engine: {what}; allowed: {', '.join(RELEASES)}")
    return Environment(folder() / f"{name}-{version}", VLLM, version, say)


def installed() -> list[str]:
    """The promised releases that are installed."""
    return [engine for engine in RELEASES if place_of(engine).installed()]


def use(engine: str) -> None:
    """See twinserve.engines.use()."""
    place = place_of(engine)
    if _used == [engine]:
        return
    if _used:
        raise InputError(f"policy.own.engine: is {engine}, but this process runs {_used[0]}; "
                         "allowed: one release per process")
    note = place.installed()
    if note is None:
        raise InputError(
            f"policy.own.engine: {engine} is not installed; installed: "
            f"{', '.join(installed()) or 'none'}; install it with: twinserve engines install "
            f"{engine}")
    version = ".".join(map(str, sys.version_info[:2]))
    if note.get("python", version) != version:
        raise InputError(
            f"policy.own.engine: {engine} was installed for Python {note['python']}, and this is "
            f"Python {version}; install it again with: twinserve engines remove {engine} && "
            f"twinserve engines install {engine}")
    os.environ.setdefault("VLLM_CONFIGURE_LOGGING", "0")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    logging.getLogger("vllm").setLevel(logging.CRITICAL)
    sys.path[:0] = [str(place.packages), str(place.site_packages)]
    absent.install(note["absent"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module in VLLM.modules:
                importlib.import_module(module)
    except Exception as error:  # whatever the release raises
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"policy.own.engine: {engine} cannot be imported here: {text}") from error
    _used.append(engine)


def load(engine: str, path: str, class_name: str | None,
         parameters: list[tuple[str, str]]) -> tuple[str, Callable[[], Policy]]:
    """See twinserve.engines.load()."""
    use(engine)
    values = dict(parameters)
    scheduler = _scheduler(path, class_name, values.get("async_scheduling") == "true")
    from twinserve.engines import vllm_policy
    defaults = vllm_policy.parameters_of(scheduler)
    values = {name: _policy_file.value_of(defaults, scheduler.__name__, name, text)
              for name, text in parameters}
    return scheduler.__name__, vllm_policy.maker(engine, scheduler, values)


def policy_of(engine: str, scheduler: type, values: dict[str, Any]) -> Callable[[], Policy]:
    """See twinserve.engines.policy()."""
    use(engine)
    from twinserve.engines import vllm_policy
    _require_scheduler(scheduler, getattr(scheduler, "__name__", repr(scheduler)))
    known = vllm_policy.parameters_of(scheduler)
    for name in values:
        if name not in known:
            raise InputError(f"policy.own.parameters.{name}: is no parameter of "
                             f"{scheduler.__name__}; allowed: {', '.join(known)}")
    return vllm_policy.maker(engine, scheduler, values)


def _scheduler(path: str, class_name: str | None, asynchronous: bool) -> type:
    """The class that an experiment names; the release's own if it names none."""
    if path:
        return _of_module(_policy_file.module_of(path), path, class_name)
    if class_name is None:
        class_name = ("vllm.v1.core.sched.async_scheduler:AsyncScheduler" if asynchronous
                      else "vllm.v1.core.sched.scheduler:Scheduler")
    module_name, colon, name = class_name.partition(":")
    if not (module_name and colon and name):
        _refuse(class_name, "is no class; allowed: MODULE:CLASS, or CLASS with policy.own.path")
    return _of_module(_imported(module_name, class_name), class_name, name)


def _imported(module_name: str, asked: str) -> types.ModuleType:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # as for `python -m`
    try:
        return importlib.import_module(module_name)
    except BaseException as error:  # SystemExit, too
        if isinstance(error, KeyboardInterrupt):
            raise
        text = " ".join(f"{type(error).__name__}: {error}".split())
        frames = [frame for frame in traceback.extract_tb(error.__traceback__)[1:]
                  if not frame.filename.startswith("<frozen")
                  and "/importlib/" not in frame.filename]
        place = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" \
            if frames else ""
        hint = "" if frames else "; allowed: a module beside the current folder's files, or installed"
        _refuse(asked, f"{module_name} cannot be imported: {text}{place}{hint}")


def _of_module(module: types.ModuleType, asked: str, name: str | None) -> type:
    base = _base()
    found = [known for known, value in vars(module).items()
             if isinstance(value, type) and issubclass(value, base)
             and value.__module__ == module.__name__]
    if name is None and len(found) == 1:
        name = found[0]
    if name is None:
        what = "several schedulers" if found else "no scheduler"
        _refuse(asked, f"has {what}; allowed: {', '.join(found) or _allowed()}")
    if not hasattr(module, name):
        _refuse(asked, f"has no class {name}; allowed: {', '.join(found) or _allowed()}")
    scheduler = getattr(module, name)
    _require_scheduler(scheduler, asked if asked.endswith(f":{name}") else f"{asked}: {name}")
    return scheduler


def _require_scheduler(scheduler: Any, asked: str) -> None:
    if not (isinstance(scheduler, type) and issubclass(scheduler, _base())):
        _refuse(asked, f"is no scheduler; allowed: {_allowed()}")


def _base() -> type:
    from vllm.v1.core.sched.scheduler import Scheduler
    return Scheduler


def _allowed() -> str:
    return f"a subclass of Scheduler or AsyncScheduler of {_used[0]}"


def _refuse(asked: str, what: str) -> NoReturn:
    raise InputError(f"policy.own.class: {asked}: {what}") from None
