"""The base class of scheduling policies written in Python."""
from __future__ import annotations

import os
from collections.abc import Callable

from twinserve._native import InputError, Request, Step, engine_change, policy_change


class Policy:
    """A scheduling policy: override plan(), and the limits and promises below.

    An engine calls enqueue() when a request arrives, plan() when it can begin a step, and remove()
    when a request ends. The base class keeps two lists of requests:

        waiting   in order of arrival; preempted requests are at the front
        running   admitted and not ended, in order of admission

    The engine checks every plan (docs/INVARIANTS.md). A plan may depend on nothing but the calls
    made to the policy: no clock, no unseeded random numbers. One object serves one run at a time.
    """

    # Limits of a step; 0 = none.
    tokens_per_step_max: int = 2048
    sequences_per_step_max: int = 256
    # Longest prompt + output of a request, tokens; 0 = the model's.
    context_tokens_max: int = 0
    # Promises: first admissions in order of arrival; never preempts (False).
    first_come_first_served: bool = True
    preempts: bool = True
    # What the policy uses: the prefix cache; swap space; predictions of output lengths.
    caches_prefixes: bool = False
    swaps_to_host: bool = False
    reads_predictions: bool = False
    # For policies that decide as a particular system does (PolicyTraits in sched/policy/policy.h).
    # Steps that may be planned before the oldest returns, and when results return: synchronous
    # (one step), pipeline, async, batch_queue or overlap.
    steps_in_flight_max: int = 1
    result_queue: str = "synchronous"
    # May issue a request again before its result is back.
    overlaps_own_steps: bool = False
    # A cancelled request frees its blocks although a step in flight has it.
    frees_in_flight: bool = False
    # The engine publishes blocks again when tokens return.
    publishes_returned_tokens: bool = False
    # No token beyond context_tokens_max is computed.
    outputs_end_at_context: bool = False
    # Tokens of the largest step, for which the KV cache is sized; 0 = tokens_per_step_max.
    sized_for_tokens: int = 0
    # Where blocks without a key join the free queue: back or keyless_front.
    release_order: str = "back"

    waiting: list[Request]
    running: list[Request]
    swapped: list[Request]

    def begin(self, block_size: int, blocks: int) -> None:
        """A run begins, with a KV cache of `blocks` blocks of `block_size` tokens. An override
        calls super().begin()."""
        self.waiting, self.running, self.swapped = [], [], []

    def plan(self, step: Step) -> None:
        """Decides one step through calls of `step`. A step without calls means: nothing to do
        until the next event."""
        raise NotImplementedError(f"{type(self).__name__} does not define plan()")

    def enqueue(self, request: Request) -> None:
        """The request arrived."""
        self.waiting.append(request)

    def remove(self, request: Request) -> None:
        """The request ended, was cancelled, or was rejected by the policy itself."""
        for queue in (self.running, self.waiting, self.swapped):
            if request in queue:
                queue.remove(request)
                return

    def admitted(self, request: Request) -> None:
        """step.admit(request) was called."""
        self.waiting.remove(request)
        self.running.append(request)

    def preempted(self, request: Request) -> None:
        """step.preempt(request) was called."""
        self.running.remove(request)
        self.waiting.insert(0, request)

    def swapped_out(self, request: Request) -> None:
        """step.swap_out(request) succeeded."""
        self.running.remove(request)
        self.swapped.append(request)

    def swapped_in(self, request: Request) -> None:
        """step.swap_in(request) succeeded."""
        self.swapped.remove(request)
        self.running.append(request)

    def step_returned(self, number: int) -> None:
        """A step ended; remove() was called for the requests that ended with it."""

    def wake_at(self) -> float | None:
        """Asked after an empty plan: seconds since the start of the run at which plan() must be called
        again even if nothing happens (a delay window ends); None: not needed. Without such a time,
        an empty plan while requests are unfinished and nothing runs is an error.
        """
        return None


PolicyFile = str | os.PathLike[str]


def made_policy(policy: Policy | Callable[[], Policy] | None) -> Policy | None:
    """The policy itself, or what the function or class makes."""
    if policy is None or isinstance(policy, Policy):
        return policy
    made = policy() if callable(policy) else policy
    if not isinstance(made, Policy):
        raise InputError(f"policy: is {made!r}; allowed: a twinserve.Policy, a function or class "
                         "without arguments that makes one, or what --policy takes")
    return made


def policy_changes(policy: PolicyFile | None, engine: str | None = None) -> list[str]:
    """The changes, in the form of --set, that name a policy as --policy and --engine do."""
    of_engine = [] if engine is None else [engine_change(engine, policy is not None)]
    if policy is None:
        return of_engine
    if not isinstance(policy, (str, os.PathLike)):
        raise InputError(f"policy: is {policy!r}; allowed in studies: what --policy takes, such as "
                         '"fair.py:Fair": a class is known to this process alone')
    return [policy_change(os.fspath(policy)), *of_engine]
