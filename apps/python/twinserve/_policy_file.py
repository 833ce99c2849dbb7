"""Policies in files of Python, which experiments name in policy.own."""
from __future__ import annotations

import difflib
import gc
import os
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any, NoReturn

from twinserve._native import InputError
from twinserve.policy import Policy

_modules: dict[str, tuple[bytes, types.ModuleType]] = {}


def load(path: str, class_name: str | None,
         parameters: list[tuple[str, str]]) -> tuple[str, Callable[[], Policy]]:
    """The name of the class, and a function that makes a policy with the parameters.

    class_name  None: the only policy that the file defines
    parameters  attributes of the policy and their values as text, which get the type of the default

    Runs the file, again only if it has changed. Raises InputError.
    """
    module = module_of(path)
    policy_class = _class(module, path, class_name)
    defaults = {name: getattr(policy_class, name) for name in dir(policy_class)
                if is_parameter(getattr(policy_class, name), name)}
    values = {name: value_of(defaults, policy_class.__name__, name, text)
              for name, text in parameters}

    def make() -> Policy:
        try:
            policy = policy_class()
        except Exception as error:  # whatever the constructor raises
            _refuse(path, f"{policy_class.__name__}() failed: {_line(error, path)}")
        for name, value in values.items():
            setattr(policy, name, value)
        return policy

    return policy_class.__name__, make


def prepare(engine: str | None) -> None:
    """Imports what load() needs, and the release of a scheduler: for a process of which each run of a
    policy gets a copy. Raises InputError."""
    if engine is not None:
        from twinserve.engines import loading
        loading.use(engine)
        from twinserve.engines import vllm_policy  # noqa: F401
    gc.freeze()  # copies then share the memory of all that is there


def _refuse(path: str, what: str, field: str = "path") -> NoReturn:
    raise InputError(f"policy.own.{field}: {path}: {what}") from None


def _line(error: BaseException, path: str) -> str:
    """The exception as one line, with the line of the file where it arose."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if frame.filename == path]
    return f"{text} (line {lines[-1]})" if lines else text


def module_of(path: str) -> types.ModuleType:
    """What the file defines. Runs it, again only if it has changed. Raises InputError."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        _refuse(path, error.strerror or str(error))
    known = _modules.get(path)
    if known is not None and known[0] == source:
        return known[1]
    name = "twinserve_policy_" + os.path.splitext(os.path.basename(path))[0]
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # where dataclasses look for the types of fields
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)  # modules beside the file, as for a script
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except BaseException as error:  # SystemExit, too: the file is no policy
        if isinstance(error, KeyboardInterrupt):
            raise
        _refuse(path, f"cannot be run: {_line(error, path)}")
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    _modules[path] = source, module
    return module


def _class(module: types.ModuleType, path: str, class_name: str | None) -> type[Policy]:
    policies = {name: value for name, value in vars(module).items()
                if isinstance(value, type) and issubclass(value, Policy)
                and value.__module__ == module.__name__}
    allowed = ", ".join(policies) or "a file that defines a subclass of twinserve.Policy"
    if class_name is None:
        if len(policies) != 1:
            what = "several policies" if policies else "no policy"
            _refuse(path, f"has {what}; allowed: {':CLASS behind the path: ' if policies else ''}"
                          f"{allowed}")
        return next(iter(policies.values()))
    found = getattr(module, class_name, None)
    if found is None:
        _refuse(path, f"has no class {class_name}; allowed: {allowed}", "class")
    if not (isinstance(found, type) and issubclass(found, Policy)):
        _refuse(path, f"{class_name} is no subclass of twinserve.Policy; allowed: {allowed}", "class")
    return found


def value_of(defaults: dict[str, Any], owner: str, name: str, text: str) -> Any:
    """The text as a value of the type that the parameter's default has. Raises InputError."""
    if name not in defaults:
        nearest = difflib.get_close_matches(name, defaults, n=1, cutoff=0)
        near = f"nearest {nearest[0]}; " if nearest else ""
        raise InputError(f"policy.own.parameters.{name}: is no parameter of {owner}; {near}"
                         f"allowed: {', '.join(defaults)}")
    kind = type(defaults[name])
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (KeyError, ValueError):
        allowed = {bool: "true, false", int: "a whole number", float: "a number"}[kind]
        raise InputError(f"policy.own.parameters.{name}: is {text}; allowed: {allowed}") from None


def is_parameter(value: Any, name: str) -> bool:
    """Whether a class attribute is a parameter of its policy."""
    return not name.startswith("_") and type(value) in (bool, int, float, str)
