"""A scheduler of vLLM as a policy: the release decides, and the engine's KV pool follows it.

    engine                    scheduler of the release
    enqueue()                 add_request()
    plan()                    schedule(), then the calls of the step that it amounts to
    step_returned()           update_from_output()
    remove()                  of a cancelled request: finish_requests()

What arrives between two plans is handed on, in its order, when the next one begins: nothing of the
scheduler can be seen before. During schedule() the scheduler's own KV cache manager is watched. The
blocks that it gives and takes are taken and given back here in the same order, so that the plan has
the operations, admissions and preemptions in the order in which the release decided them.

Easy to get wrong:
- vLLM's pool has one block more than the engine's: its null block.
- Blocks are known by the engine's keys of their content: equal keys, equal hashes. The tokens of a
  full block of a prompt say its key, so that equal prefixes have equal tokens.
- An ended request is a cancelled one unless the step that returns next gave it a token.
- The classes' modules get a clock that shows the time of the run: `time.time()` is the time of the
  plan, in seconds since the start, as the requests' arrival_time is.
"""
from __future__ import annotations

import functools
import math
import os
import sys
import time
import traceback
import types
from collections.abc import Callable
from typing import Any

from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

from twinserve import _policy_file
from twinserve._native import InputError, Request, Step
from twinserve.engines import vllm_release
from twinserve.policy import Policy

# The parameters of every scheduler, with the defaults of the policy vllm_v1; 0 = no limit of its own.
DEFAULTS: dict[str, Any] = {
    "max_num_batched_tokens": 2048, "max_num_seqs": 128, "max_model_len": 0, "policy": "fcfs",
    "enable_chunked_prefill": True, "long_prefill_token_threshold": 0,
    "enable_prefix_caching": False, "async_scheduling": False, "scheduler_reserve_full_isl": True,
    "long_prefill_token_threshold_adaptive": False, "watermark": 0.0,
    "prefill_schedule_interval": 1, "max_num_active_seqs": 0, "max_num_scheduled_tokens": 0,
    "reads_predictions": False}

_LONGEST = 2**31 - 1
_STOP_TOKEN, _FIRST_TOKEN = 2, 1000
_KEY_BITS = 2**62 - 1
_PREEMPTED, _LOOKED_UP = -1, 0  # entries of the log in place of a number of tokens


class SchedulerFailed(Exception):
    """An exception in a scheduler, as one line."""


class MirrorError(Exception):
    """The engine cannot follow what a scheduler did."""


def parameters_of(scheduler: type) -> dict[str, Any]:
    """The parameters of a scheduler with their defaults: those of all, and its own class attributes
    that are numbers, texts or bools."""
    own: dict[str, Any] = {}
    for base in reversed(scheduler.__mro__):
        if not base.__module__.startswith("vllm."):
            own |= {name: value for name, value in vars(base).items()
                    if _policy_file.is_parameter(value, name)}
    return DEFAULTS | {"async_scheduling": issubclass(scheduler, AsyncScheduler)} | own


def maker(engine: str, scheduler: type, values: dict[str, Any]) -> Callable[[], Policy]:
    """A function that makes policies of the scheduler with the parameters. Raises InputError where
    the release refuses them."""
    settings = {name: values.get(name, default) for name, default in parameters_of(scheduler).items()
                if name in DEFAULTS}
    own = {name: value for name, value in values.items() if name not in DEFAULTS}
    if settings["async_scheduling"] != issubclass(scheduler, AsyncScheduler):
        other = "Scheduler" if settings["async_scheduling"] else "AsyncScheduler"
        raise InputError(
            f"policy.own.parameters.async_scheduling: is {str(settings['async_scheduling']).lower()}"
            f", but {scheduler.__name__} is a subclass of {other}; allowed: "
            f"{str(not settings['async_scheduling']).lower()}")
    params = _params_of(settings)
    try:
        vllm_release.scheduler_config(params)
    except Exception as error:  # pydantic's and the release's own
        raise InputError(f"policy.own.parameters: {engine} refuses them: {_reason(error)}") from None
    decider = type(scheduler.__name__, (scheduler,), own | {"__module__": scheduler.__module__}) \
        if own else scheduler
    policy = type(scheduler.__name__, (SchedulerPolicy,), {})
    return functools.partial(policy, decider, settings, params)


def _reason(error: Exception) -> str:
    """What the release says, without pydantic's words about itself."""
    found = error.errors() if hasattr(error, "errors") else []
    return "; ".join(": ".join([*map(str, entry["loc"]), entry["msg"]]) for entry in found) \
        or " ".join(str(error).split())


def _params_of(settings: dict[str, Any]) -> dict[str, Any]:
    """The parameters as the release takes them: without those that leave a limit open."""
    open_limits = {"max_num_active_seqs", "max_num_scheduled_tokens"}
    params = {name: value for name, value in settings.items()
              if name != "reads_predictions" and (value or name not in open_limits)}
    params["max_model_len"] = settings["max_model_len"] or _LONGEST
    return params


class _Clock(types.ModuleType):
    """Stands in for the module `time` in modules of schedulers."""

    now_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return round(self.now_s * 1e9)

    monotonic = perf_counter = time
    monotonic_ns = perf_counter_ns = time_ns


_clock = _Clock("time")
_CLOCK_NAMES = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")


def _set_clock(scheduler: type) -> None:
    """Replaces the clocks that the modules of the class and its bases have imported; not those of a
    script or notebook, which measures with them."""
    functions = {getattr(time, name): name for name in _CLOCK_NAMES}
    for base in scheduler.__mro__:
        module = sys.modules.get(base.__module__)
        if module is None or base.__module__ in ("builtins", "abc", "__main__"):
            continue
        for name, value in list(vars(module).items()):
            if value is time:
                setattr(module, name, _clock)
            elif isinstance(value, types.BuiltinFunctionType) and value in functions:
                setattr(module, name, getattr(_clock, functions[value]))


class _Entry:
    """A request on both sides."""

    __slots__ = ("ours", "theirs", "has_left")

    def __init__(self, ours: Request):
        self.ours = ours
        self.theirs: Any = None  # once the scheduler has it
        self.has_left = False


class SchedulerPolicy(Policy):
    """The policy of one engine. Subclasses have the name of the scheduler."""

    def __init__(self, scheduler: type, settings: dict[str, Any], params: dict[str, Any]):
        self._class, self._settings, self._params = scheduler, settings, params
        batched = settings["max_num_batched_tokens"]
        asynchronous = settings["async_scheduling"]
        self.tokens_per_step_max = min(batched, settings["max_num_scheduled_tokens"] or batched)
        self.sequences_per_step_max = settings["max_num_active_seqs"] or settings["max_num_seqs"]
        self.sized_for_tokens = batched
        self.context_tokens_max = settings["max_model_len"]
        self.outputs_end_at_context = True
        self.first_come_first_served = False
        self.caches_prefixes = settings["enable_prefix_caching"]
        self.reads_predictions = settings["reads_predictions"]
        self.release_order = "keyless_front"
        self.frees_in_flight = True
        if asynchronous:
            self.steps_in_flight_max, self.result_queue = 2, "batch_queue"
            self.overlaps_own_steps = True
            self.publishes_returned_tokens = self.caches_prefixes

    def begin(self, block_size: int, blocks: int) -> None:
        super().begin(block_size, blocks)
        self._block_size, self._blocks = block_size, blocks
        self._entries: dict[str, _Entry] = {}
        self._events: list[tuple[Any, ...]] = []  # since the latest plan, in order
        self._ending: set[str] = set()  # requests that end with the step that returns now
        self._outputs: dict[int, tuple[Any, list[tuple[str, bool]]]] = {}  # of steps in flight
        self._too_large: list[_Entry] = []  # victims that the cache can never hold again
        self._latest_arrival = 0.0
        self._log: list[tuple[Any, int, int, int | None, bool]] = []
        _set_clock(self._class)
        _clock.now_s = 0.0
        self._scheduler = self._call("__init__", self._make)

    def _make(self) -> Any:
        config = vllm_release.configuration(self._params, self._block_size, self._blocks)
        scheduler = vllm_release.make_scheduler(self._class, config, self._block_size, self._blocks)
        self._watch(scheduler.kv_cache_manager)
        return scheduler

    def _watch(self, manager: Any) -> None:
        """Logs what the manager gives, takes back and finds: (request, tokens, end of the computed
        tokens, tokens found in the cache if it was waiting, whether it emits)."""
        allocate, free, find = manager.allocate_slots, manager.free, manager.get_computed_blocks
        log = self._log

        def allocate_slots(request: Any, num_new_tokens: int, *values: Any, **named: Any) -> Any:
            end = request.num_computed_tokens + num_new_tokens
            hit = None
            if request.status != RequestStatus.RUNNING:
                hit = values[0] if values else named.get("num_new_computed_tokens", 0)
                end += hit
            given = allocate(request, num_new_tokens, *values, **named)
            if given is not None:
                emits = end >= request.num_tokens + request.num_output_placeholders
                log.append((request, num_new_tokens, end, hit, emits))
            return given

        def free_blocks(request: Any) -> None:
            free(request)
            if not request.is_finished():
                log.append((request, _PREEMPTED, 0, None, False))

        def get_computed_blocks(request: Any, *values: Any, **named: Any) -> Any:
            found = find(request, *values, **named)
            if self.caches_prefixes and not request.skip_reading_prefix_cache:
                log.append((request, _LOOKED_UP, found[1], None, False))
            return found

        manager.allocate_slots, manager.free = allocate_slots, free_blocks
        manager.get_computed_blocks = get_computed_blocks

    # What the engine tells.

    def enqueue(self, request: Request) -> None:
        entry = self._entries[_name(request)] = _Entry(request)
        self._events.append((self._add, entry))

    def remove(self, request: Request) -> None:
        name = _name(request)
        entry = self._entries[name]
        if entry.has_left or entry.theirs is None:
            entry.has_left = True
            del self._entries[name]
            return
        # Tokens that have returned and that the scheduler has not heard of.
        queued = sum(known == name and emits for call, *values in self._events
                     if call == self._update for known, emits in values[0][1])
        if request.output_tokens > entry.theirs.num_output_tokens + queued:
            self._ending.add(name)
        else:
            self._events.append((self._cancel, entry))

    def step_returned(self, number: int) -> None:
        returned = self._outputs.pop(number, None)
        if returned is None:
            return  # it rejected requests, and the scheduler has not planned it
        self._events.append((self._update, returned, self._ending))
        self._ending = set()

    def admitted(self, request: Request) -> None:
        """The scheduler keeps the queues."""

    def preempted(self, request: Request) -> None:
        """The scheduler keeps the queues."""

    # What the scheduler is told.

    def _add(self, step: Step, entry: _Entry) -> None:
        ours = entry.ours
        if entry.has_left:
            return
        reason = self._refusal(step, ours)
        if reason is not None:
            entry.has_left = True
            step.reject(ours, reason)
            return
        self._latest_arrival = max(ours.arrival_s, math.nextafter(self._latest_arrival, math.inf))
        extra = {"tenant": ours.tenant}
        if self.reads_predictions:
            extra["predicted_output_tokens"] = ours.predicted_output_tokens
        entry.theirs = vllm_release.request_of(
            request_id=_name(ours), prompt_token_ids=self._prompt_of(ours),
            sampling_params=SamplingParams(max_tokens=ours.max_output_tokens,
                                           stop_token_ids=[_STOP_TOKEN], extra_args=extra),
            arrival_time=self._latest_arrival, priority=ours.priority,
            block_hasher=self._hashes_of if self.caches_prefixes else None)
        self._call("add_request", self._scheduler.add_request, entry.theirs)

    def _refusal(self, step: Step, ours: Request) -> str | None:
        """Why a server would refuse the request before its scheduler sees it."""
        longest = self._params["max_model_len"]
        whole = not self._settings["enable_chunked_prefill"]
        if ours.prompt_tokens >= longest or (whole and ours.prompt_tokens > self.tokens_per_step_max):
            return "too_long_for_model"
        return "too_large_for_cache" if step.blocks_for(ours.prompt_tokens) > step.blocks else None

    def _prompt_of(self, ours: Request) -> list[int]:
        """Tokens of the prompt: a full block has its key in each of them, and the rest is the
        request's own."""
        tokens: list[int] = []
        if self.caches_prefixes:
            for key in ours.prefix_keys():
                tokens += [_FIRST_TOKEN + (key & _KEY_BITS)] * self._block_size
        del tokens[ours.prompt_tokens:]
        return tokens + [_FIRST_TOKEN + ours.id] * (ours.prompt_tokens - len(tokens))

    def _hashes_of(self, request: Any) -> list[bytes]:
        """The block hasher of the requests: hashes of the full blocks that have none yet."""
        have = len(request.block_hashes)
        missing = request.num_tokens // self._block_size - have
        if missing == 0:
            return []
        keys = self._entries[request.request_id].ours.prefix_keys(have)
        if len(keys) < missing:
            raise MirrorError(f"request {int(request.request_id)} has {have + missing} full blocks, "
                              f"and the engine knows keys of {have + len(keys)}")
        return [key.to_bytes(8, "little") for key in keys[:missing]]

    def _update(self, step: Step, returned: tuple[Any, list[tuple[str, bool]]],
                ending: set[str]) -> None:
        output, items = returned
        known = self._scheduler.requests
        tokens = [[self._token(known.get(name), name in ending)] if emits else []
                  for name, emits in items]
        left = len(known) - len(ending)
        self._call("update_from_output", self._scheduler.update_from_output, output,
                   vllm_release.model_output([name for name, _ in items], tokens))
        known = self._scheduler.requests
        if len(known) != left or any(name in known for name in ending):
            raise MirrorError(f"{len(known)} requests are unfinished in the scheduler, and {left} in "
                              f"the engine, which ended {_listed(ending)} in this step")
        for name in ending:
            del self._entries[name]

    def _token(self, request: Any, ends: bool) -> int:
        """The next token of the request, if it is still there: one that stops it where it ends
        before a limit does so."""
        if (not ends or request.num_output_tokens + 1 >= request.max_tokens
                or request.num_tokens + 1 >= self._params["max_model_len"]):
            return _FIRST_TOKEN
        return _STOP_TOKEN

    def _cancel(self, step: Step, entry: _Entry) -> None:
        name = entry.theirs.request_id
        self._call("finish_requests", self._scheduler.finish_requests, name,
                   RequestStatus.FINISHED_ABORTED)
        del self._entries[name]

    def _give_up(self, step: Step, entry: _Entry) -> None:
        """Rejects a victim that could never be admitted again."""
        if entry.has_left or self._entries.get(_name(entry.ours)) is not entry:
            return
        self._call("finish_requests", self._scheduler.finish_requests, entry.theirs.request_id,
                   RequestStatus.FINISHED_ABORTED)
        entry.has_left = True
        step.reject(entry.ours, "too_large_for_cache")

    # What it decides.

    def plan(self, step: Step) -> None:
        _clock.now_s = step.now_s
        scheduler = self._scheduler
        self._outputs.pop(step.number, None)  # of an empty plan
        self._log.clear()
        events, self._events = self._events, []
        for call, *values in events:
            call(step, *values)
        too_large, self._too_large = self._too_large, []
        for entry in too_large:
            self._give_up(step, entry)
        if not scheduler.has_requests():
            return
        output = self._call("schedule", scheduler.schedule)
        items = self._follow(step)
        if {name: tokens for name, (tokens, _) in items.items()} != output.num_scheduled_tokens:
            raise MirrorError(_difference(items, output.num_scheduled_tokens))
        free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        if free != step.free_blocks:
            raise MirrorError(f"the scheduler's KV cache has {free} free blocks, and the engine's "
                              f"{step.free_blocks}")
        self._outputs[step.number] = output, [(name, emits) for name, (_, emits) in items.items()]

    def _follow(self, step: Step) -> dict[str, tuple[int, bool]]:
        """Does in the engine what the log says. Returns the items of the step: tokens, and whether
        they emit one."""
        items: dict[str, tuple[int, bool]] = {}
        decodes: list[Request] = []  # consecutive items of one token, not scheduled yet
        for request, tokens, end, hit, emits in self._log:
            name = request.request_id
            entry = self._entries[name]
            if tokens == 1 and hit is None and emits:
                decodes.append(entry.ours)
                items[name] = 1, True
                continue
            if decodes:
                self._schedule_decodes(step, decodes)
                decodes = []
            if tokens == _PREEMPTED:
                self._preempt(step, entry, items.pop(name, None) is not None)
            elif tokens == _LOOKED_UP:
                self._require_hit(step, entry.ours, end)
            else:
                if hit is not None:
                    self._admit(step, entry.ours, hit)
                self._schedule(step, entry.ours, tokens, end)
                items[name] = tokens, emits
        if decodes:
            self._schedule_decodes(step, decodes)
        return items

    def _schedule_decodes(self, step: Step, decodes: list[Request]) -> None:
        done = step.schedule_decodes(decodes)
        while done < len(decodes):  # one that is no plain decode, such as the end of a prompt
            self._schedule(step, decodes[done], 1, decodes[done].computed + 1)
            done += 1
            done += step.schedule_decodes(decodes, done)

    def _admit(self, step: Step, ours: Request, hit: int) -> None:
        step.admit(ours)
        if self.caches_prefixes:
            step.attach_prefix(ours, hit // self._block_size)

    def _schedule(self, step: Step, ours: Request, tokens: int, end: int) -> None:
        if not step.grow(ours, end):
            raise MirrorError(f"request {ours.id} needs {step.blocks_for(end)} blocks and holds "
                              f"{ours.blocks}, and the engine has {step.free_blocks} free ones")
        if ours.computed + tokens != end:
            raise MirrorError(f"request {ours.id} has {end - tokens} computed tokens in the "
                              f"scheduler, and {ours.computed} in the engine")
        step.schedule(ours, tokens)
        if self.caches_prefixes:
            step.publish_prefix(ours, min(end, ours.known))

    def _preempt(self, step: Step, entry: _Entry, is_in_step: bool) -> None:
        ours = entry.ours
        if is_in_step:
            step.unschedule(ours)
        step.preempt(ours)
        if step.blocks_for(min(ours.known, self._params["max_model_len"])) > step.blocks:
            self._too_large.append(entry)

    def _require_hit(self, step: Step, ours: Request, tokens: int) -> None:
        found = step.lookup_prefix(ours) * self._block_size
        if found != tokens:
            raise MirrorError(f"the scheduler finds {tokens} cached tokens of request {ours.id}, and "
                              f"the engine {found}")

    def _call(self, method: str, call: Callable[..., Any], *values: Any) -> Any:
        """Calls the scheduler; an exception becomes one line with the method and the place."""
        try:
            return call(*values)
        except MirrorError:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if frame.filename != __file__
                   and "/packages/vllm/" not in frame.filename]
            place = (own or frames)[-1]
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise SchedulerFailed(f"{method}() raised {text} ({os.path.basename(place.filename)}, "
                                  f"line {place.lineno})") from error


def _name(request: Request) -> str:
    """The request's id in the scheduler; names are in the order of arrival."""
    return f"{request.id:010}"


def _listed(names: set[str]) -> str:
    return ", ".join(str(int(name)) for name in sorted(names)) or "none"


def _difference(items: dict[str, tuple[int, bool]], planned: dict[str, int]) -> str:
    """The first request of which the output says another number of tokens than its blocks do."""
    for name in sorted({*items, *planned}):
        ours, theirs = items.get(name, (0, False))[0], planned.get(name, 0)
        if ours != theirs:
            return (f"schedule() gives request {int(name)} {theirs} tokens, and its blocks were "
                    f"taken for {ours}")
    return "schedule() gives other tokens than it took blocks for"
