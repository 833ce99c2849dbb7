"""Policies in Python: equal to C++ where they decide alike, checked, clear when they fail."""
import pathlib
import sys

import pytest
import twinserve

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "apps/python/examples"))
from shortest_prompt_first import ShortestPromptFirst  # noqa: E402

TINY_MODEL = ROOT / "tests/golden/models/tiny-llama"


class FirstComeFirstServed(twinserve.Policy):
    """What vLLM V1 does without prefix caching, asynchronous scheduling, and preemption."""

    tokens_per_step_max = 512
    sequences_per_step_max = 16
    context_tokens_max = 512

    def plan(self, step):
        done = step.schedule_decodes(self.running)
        for request in self.running[done:]:
            tokens = min(request.left, step.tokens_left)
            if tokens > 0 and step.grow(request, request.computed + tokens):
                step.schedule(request, tokens)
        while self.waiting and step.tokens_left > 0 and len(self.running) < 16:
            request = self.waiting[0]
            tokens = min(request.left, step.tokens_left)
            if step.blocks_for(tokens) > step.free_blocks:
                break
            step.admit(request)
            assert step.grow(request, tokens)
            step.schedule(request, tokens)


VLLM = {"policy": "vllm_v1 { max_num_batched_tokens: 512 max_num_seqs: 16 max_model_len: 512 "
                  "enable_prefix_caching: false async_scheduling: false release: v0_15_1 }"}


def test_equal_rules_give_the_digest_of_the_policy_in_cpp(tiny):
    loads = {**VLLM, "workload.arrivals.rate": 3000, "workload.requests": 400,
             "system.memory.blocks_override": 256}
    built_in = twinserve.run(tiny, loads)
    own = twinserve.run(tiny, loads, policy=FirstComeFirstServed)
    assert own.digest == built_in.digest
    assert own.summary["mean_ttft_ms"] == built_in.summary["mean_ttft_ms"] > 1.5


def test_the_example_prefers_short_prompts(quickstart):
    own = twinserve.run(quickstart, {"workload.requests": 500}, policy=ShortestPromptFirst)
    assert own.summary["completed"] == 500
    again = twinserve.run(quickstart, {"workload.requests": 500}, policy=ShortestPromptFirst())
    assert again.digest == own.digest


def test_the_example_preempts_where_the_cache_is_small(tiny):
    # Of 9 blocks, vLLM keeps one for itself. 8 hold 128 tokens: two prompts, and no output of either.
    crowded = {"system.memory": "{ blocks_override: 9 max_model_length: 128 }",
               "workload.arrivals": "{ kind: all_at_once }"}
    run = twinserve.run(tiny, crowded, policy=ShortestPromptFirst)
    assert run.summary["completed"] == 100
    assert run.summary["preemptions"] > 0


def test_one_object_serves_one_run_after_the_other(tiny):
    policy = FirstComeFirstServed()
    assert twinserve.run(tiny, policy=policy).digest == twinserve.run(tiny, policy=policy).digest


def test_a_recorded_run_replays_with_the_same_policy_only(tiny, tmp_path, command_line):
    out = tmp_path / "own"
    run = twinserve.run(tiny, policy=ShortestPromptFirst, out=out)
    assert "ShortestPromptFirst" in run.config
    assert twinserve.replay(out, policy=ShortestPromptFirst).equal
    refused = command_line("replay", out, check=False)
    assert refused.returncode == 2
    assert "decided by the policy ShortestPromptFirst" in refused.stderr


def test_the_real_executor_runs_it():
    experiment = ROOT / "experiments/quickstart_cpu/vllm_v1.textproto"
    changes = {"system.model": f"{TINY_MODEL}/", "system.model_shape": None,
               "world.real.dummy_weights": False, "workload.requests": 5,
               "workload.arrivals.rate": 1000, "workload.shape.prompt": "{ kind: fixed value: 20 }",
               "workload.shape.output": "{ kind: fixed value: 4 }", "workload.max_output": None,
               "policy.vllm_v1.max_model_len": 64, "policy.vllm_v1.max_num_batched_tokens": 64}
    run = twinserve.run(experiment, changes, policy=ShortestPromptFirst)
    assert run.summary["completed"] == 5
    assert set(run.requests["output_tokens"]) == {4}


def failing(body, **limits):
    def plan(self, step):
        body(self, step)
    return type("Failing", (twinserve.Policy,), {"plan": plan, **limits})


def test_an_exception_becomes_one_error_with_its_cause(tiny):
    def body(self, step):
        self.waiting[0].prompt_tokens / 0
    with pytest.raises(twinserve.PolicyError) as raised:
        twinserve.run(tiny, policy=failing(body))
    assert str(raised.value) == ("policy Failing: plan() failed in step 1: ZeroDivisionError: "
                                 "division by zero")
    cause = raised.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    names = []
    traceback = cause.__traceback__
    while traceback:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names[-1] == "body"


def admit_without_blocks(self, step):
    request = self.waiting[0]
    step.admit(request)
    step.schedule(request, 64)


def over_budget(self, step):
    request = self.waiting[0]
    step.admit(request)
    step.grow(request, 64)
    step.schedule(request, 64)


def admit_the_latest_first(self, step):
    if len(self.waiting) == 1:
        return
    for request in self.waiting[::-1]:
        step.admit(request)


@pytest.mark.parametrize("body, limits, invariant", [
    (admit_without_blocks, {}, "I4"),
    (over_budget, {"tokens_per_step_max": 63}, "I1"),
    (lambda self, step: None, {}, "I9"),
    (admit_the_latest_first, {"wake_at": lambda self: 1e9}, "I8"),
])
def test_invariants_hold_as_for_policies_in_cpp(tiny, body, limits, invariant):
    with pytest.raises(twinserve.PolicyError, match=invariant) as raised:
        twinserve.run(tiny, policy=failing(body, **limits))
    violation = raised.value
    if not isinstance(violation, twinserve.InvariantViolation):
        violation = violation.__cause__
    assert isinstance(violation, twinserve.InvariantViolation)


@pytest.mark.parametrize("body, what", [
    (lambda self, step: step.schedule(self.waiting[0], 1), "is waiting; allowed: running"),
    (lambda self, step: step.preempt(self.waiting[0]), "is waiting; allowed: running"),
    (lambda self, step: step.reject(self.waiting[0], "tired"),
     "allowed: too_long_for_model, too_large_for_cache, overloaded"),
    (lambda self, step: step.schedule_decodes([], 1), "from is 1"),
    (lambda self, step: step.schedule_decodes([self]), "TypeError: schedule_decodes: element 0 is"),
    (lambda self, step: step.admit(None), "TypeError"),
])
def test_misuse_is_refused_and_does_not_end_the_process(tiny, body, what):
    with pytest.raises(twinserve.PolicyError, match=what):
        twinserve.run(tiny, policy=failing(body))


# 2**31 - 1 tokens behind those that are computed are no 32-bit number.
@pytest.mark.parametrize("tokens", [-1, 0, 65, 2**31 - 1])
def test_only_tokens_that_a_request_has_left_are_scheduled(tiny, tokens):
    def body(self, step):
        request = self.waiting[0]
        step.admit(request)
        step.grow(request, 64)
        step.schedule(request, 1)
        step.unschedule(request)
        step.schedule(request, tokens)
    with pytest.raises(twinserve.PolicyError,
                       match=f"ValueError: schedule: tokens is {tokens}; allowed: 1 to the 64 "):
        twinserve.run(tiny, policy=failing(body))


@pytest.mark.parametrize("use", [
    lambda step, request: step.schedule(request, 1),
    lambda step, request: step.schedule_decodes([request]),
    lambda step, request: step.admit(request),
    lambda step, request: step.unschedule(request),
    lambda step, request: step.lookup_prefix(request),
])
def test_a_request_of_another_run_is_refused(tiny, use):
    kept = []
    def keep(self, step):
        kept.append(self.waiting[0])
        raise RuntimeError("enough")
    with pytest.raises(twinserve.PolicyError, match="enough"):
        twinserve.run(tiny, policy=failing(keep))
    with pytest.raises(twinserve.PolicyError, match="request 0 belongs to another run"):
        twinserve.run(tiny, policy=failing(lambda self, step: use(step, kept[0])))


def test_a_step_and_progress_belong_to_plan(tiny):
    kept = []
    def body(self, step):
        kept[:] = [step, self.waiting[0]]
        raise RuntimeError("enough")
    with pytest.raises(twinserve.PolicyError):
        twinserve.run(tiny, policy=failing(body))
    step, request = kept
    assert request.prompt_tokens == 64
    with pytest.raises(ValueError, match="plan"):
        step.free_blocks
    with pytest.raises(ValueError, match="plan"):
        request.known


def test_a_request_that_left_cannot_be_used(tiny):
    gone = []
    class Late(FirstComeFirstServed):
        def remove(self, request):
            super().remove(request)
            gone.append(request)
        def plan(self, step):
            if gone:
                step.preempt(gone[0])
            super().plan(step)
    with pytest.raises(twinserve.PolicyError, match="request 0 has left the engine"):
        twinserve.run(tiny, policy=Late)


@pytest.mark.parametrize("policy", [3, dict])
def test_what_is_no_policy_is_refused(tiny, policy):
    with pytest.raises(twinserve.InputError, match="policy: is"):
        twinserve.run(tiny, policy=policy)


@pytest.mark.parametrize("attributes, what", [
    ({"tokens_per_step_max": -1}, "tokens_per_step_max is -1; allowed: an integer from 0"),
    ({"sequences_per_step_max": "many"}, "sequences_per_step_max is many; allowed: an integer"),
    ({"context_tokens_max": 2**31}, "context_tokens_max is 2147483648; allowed: an integer"),
    ({"preempts": 1}, "preempts is 1; allowed: True or False"),
    ({"caches_prefixes": None}, "caches_prefixes is None; allowed: True or False"),
])
def test_an_attribute_of_another_type_is_named(tiny, attributes, what):
    with pytest.raises(twinserve.PolicyError, match=f"policy Failing: {what}"):
        twinserve.run(tiny, policy=failing(lambda self, step: None, **attributes))


def test_two_steps_in_flight_plan_as_an_asynchronous_scheduler_does(tiny):
    class Ahead(FirstComeFirstServed):
        steps_in_flight_max, result_queue = 2, "batch_queue"
        overlaps_own_steps = frees_in_flight = outputs_end_at_context = True
        release_order = "keyless_front"

        def plan(self, step):
            for request in list(self.running):  # a token in flight may be the last one
                certain = request.pending > 0 and request.known + 1 >= (
                    request.prompt_tokens + request.max_output_tokens)
                if not certain and request.left > 0 and step.tokens_left > 0:
                    tokens = min(request.left, step.tokens_left)
                    assert step.grow(request, request.computed + tokens)
                    step.schedule(request, tokens)
            while self.waiting and step.tokens_left > 0 and len(self.running) < 16:
                request = self.waiting[0]
                tokens = min(request.left, step.tokens_left)
                step.admit(request)
                assert step.grow(request, tokens)
                step.schedule(request, tokens)

    loads = {"policy": "vllm_v1 { max_num_batched_tokens: 512 max_num_seqs: 16 max_model_len: 512 "
                       "async_scheduling: true scheduler_reserve_full_isl: false }",
             "workload.arrivals.rate": 3000, "workload.requests": 200,
             "system.memory.blocks_override": 256}
    built_in = twinserve.run(tiny, loads)
    assert twinserve.run(tiny, loads, policy=Ahead).digest == built_in.digest


def test_keys_of_blocks_and_the_length_of_an_ended_output_can_be_read(tiny):
    class Keyed(FirstComeFirstServed):
        caches_prefixes = True
        seen, left = {}, []

        def plan(self, step):
            for request in self.waiting:
                self.seen[request.id] = request.prefix_keys()
                assert request.output_tokens == -1
                assert request.prefix_keys(1) == request.prefix_keys()[1:]
            super().plan(step)

        def remove(self, request):
            super().remove(request)
            assert request.prefix_keys()[:4] == self.seen[request.id]  # of 64 tokens
            self.left.append(request.output_tokens)

    twinserve.run(tiny, {"workload.shape.shared_prefix": "{ prompts: 1 tokens: 32 }",
                         "workload.shape.prompt.value": 32}, policy=Keyed)
    assert Keyed.left == [8] * 100
    assert len({tuple(keys[:2]) for keys in Keyed.seen.values()}) == 1
    assert len({keys[2] for keys in Keyed.seen.values()}) == 100


@pytest.mark.parametrize("attributes, what", [
    ({"steps_in_flight_max": 0}, "steps_in_flight_max is 0; allowed: 1 to 1024"),
    ({"result_queue": "fast"}, "result_queue is fast; allowed: synchronous, pipeline, async, "
                               "batch_queue, overlap"),
    ({"steps_in_flight_max": 2}, "result_queue is synchronous; allowed: synchronous with one step"),
    ({"overlaps_own_steps": True}, "overlaps_own_steps is True; allowed: False with one step"),
    ({"release_order": 3}, "release_order is 3; allowed: back, keyless_front")])
def test_attributes_of_a_system_are_checked(tiny, attributes, what):
    policy = type("Wrong", (FirstComeFirstServed,), attributes)
    with pytest.raises(twinserve.PolicyError, match=what):
        twinserve.run(tiny, policy=policy)


def test_a_result_of_another_type_names_the_method(tiny):
    with pytest.raises(twinserve.PolicyError,
                       match=r"policy Failing: wake_at\(\) failed in step 1: it returned soon; "
                             "allowed"):
        twinserve.run(tiny, policy=failing(lambda self, step: None, wake_at=lambda self: "soon"))


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize("raised, text", [
    (ValueError("\ud800"), r"ValueError: \\ud800"), (Speechless(), r"Speechless: \(no text\)"),
])
def test_an_exception_without_readable_text_becomes_one_error(tiny, raised, text):
    def body(self, step):
        raise raised
    with pytest.raises(twinserve.PolicyError, match=text) as error:
        twinserve.run(tiny, policy=failing(body))
    assert error.value.__cause__ is raised
