"""Schedulers of releases of vLLM, unchanged, as policies (docs/engines.md).

Without the rest of the package: checks/originals installs releases with these modules, too.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinserve.policy import Policy

# The releases whose decisions are promised: checks/originals/run finds no difference to the policy
# vllm_v1 with the rules named here, and tests/python/engines_test.py runs whole simulations.
RELEASES = {"vllm==0.33.0": "v0_33_0", "vllm==0.32.0": "v0_31_0", "vllm==0.31.0": "v0_31_0"}


def load(engine: str, path: str, class_name: str | None,
         parameters: list[tuple[str, str]]) -> tuple[str, Callable[[], Policy]]:
    """The name of the class, and a function that makes a policy with the parameters.

    engine      the release, such as "vllm==0.33.0"
    path        a file of Python with the class, or "": it is in a module, or the release's own
    class_name  the class in the file, or MODULE:CLASS; None: the only scheduler of the file, or the
                release's own
    parameters  of the release's scheduler, or class attributes of the class, as text

    Runs code of the release and of the class. Raises InputError.
    """
    from twinserve.engines import loading
    return loading.load(engine, path, class_name, parameters)


def policy(scheduler: type, engine: str, **parameters: Any) -> Callable[[], Policy]:
    """What run(policy=...) takes, for a class that is known to this process: a subclass of the
    release's Scheduler or AsyncScheduler, which can be imported after use(engine)."""
    from twinserve.engines import loading
    return loading.policy_of(engine, scheduler, parameters)


def use(engine: str) -> None:
    """Lets this process import the installed release: one release per process. Packages that it
    imports and that are not installed are replaced by empty modules. Raises InputError."""
    from twinserve.engines import loading
    loading.use(engine)
