"""Runs vLLM's V1 scheduler, as it is installed, on scheduling cases.

Executed: Scheduler or AsyncScheduler, the KV cache manager, Request and its block hasher. Scripted:
the model's tokens and the drafts. The two engine loops (synchronous; a queue of two batches) are
written again here, from the engine core of the release.
"""
import collections
import dataclasses
import inspect
import pathlib

STOP_TOKEN = 3


class Settings:
    """A configuration object: the given values, then the properties and defaults of the release's
    own class, then None."""

    def __init__(self, like=None, **values):
        self.__dict__.update(values, _like=like)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        own = inspect.getattr_static(self._like, name, None) if self._like else None
        if isinstance(own, property):
            return own.fget(self)
        if inspect.isfunction(own):
            return own.__get__(self)
        field = getattr(self._like, "__dataclass_fields__", {}).get(name)
        if field is None or field.default is dataclasses.MISSING:
            return None
        return getattr(field.default, "default", field.default)  # of a pydantic field


def accepted(function, values):
    """Of the keyword arguments, those that the function has."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in names}


def queue_rule(package):
    """Whether the loop with a queue of batches goes on to the next pass after an empty batch while
    requests are left (0.33.0), and not only after a batch with work (0.15.1)."""
    text = (pathlib.Path(package).parent / "v1/engine/core.py").read_text()
    return "model_executed or self.scheduler.has_requests()" in text


class Original:
    """The release's scheduler on one case, and the loop around it."""

    def __init__(self, case):
        self.case = case
        self.params = case["params"]
        self.requests = case["requests"]
        self.drafts_max = self.params.get("num_speculative_tokens", 0)
        self.asynchronous = bool(self.params.get("async_scheduling"))
        self.emitted = [0] * len(self.requests)
        self.emitting_items = [0] * len(self.requests)
        self.targets = {}     # request -> tokens that it must have computed before it emits
        self.preempted = []
        self.steps = []
        self.scheduler, self.hasher = self.build()

    def config(self):
        import vllm.config as config
        params, kv = self.params, self.case["kv"]
        own = {"max_model_len": params["max_model_len"], "is_encoder_decoder": False,
               "enable_chunked_prefill": params["enable_chunked_prefill"]}
        wanted = ["max_num_batched_tokens", "max_num_seqs", "policy", "async_scheduling",
                  "long_prefill_token_threshold", "long_prefill_token_threshold_adaptive",
                  "scheduler_reserve_full_isl", "watermark", "prefill_schedule_interval",
                  "max_num_active_seqs", "max_num_scheduled_tokens"]
        fields = config.SchedulerConfig.__dataclass_fields__
        own |= {name: params[name] for name in wanted if name in params and name in fields}
        unknown = [name for name in wanted if params.get(name) and name not in fields]
        if unknown:
            raise ValueError(f"this release has no {unknown[0]}")
        cache = Settings(config.CacheConfig, block_size=kv["block_size"],
                         num_gpu_blocks=kv["blocks"] + 1,
                         enable_prefix_caching=params["enable_prefix_caching"])
        model = Settings(config.ModelConfig, max_model_len=params["max_model_len"],
                         runner_type="generate", is_encoder_decoder=False, uses_mrope=False,
                         supports_multimodal_inputs=False, is_multimodal_model=False,
                         is_diffusion=False, enable_return_routed_experts=False,
                         return_sampling_mask=False, multimodal_config=None, is_hybrid=False)
        return Settings(
            config.VllmConfig, scheduler_config=Settings(
                config.SchedulerConfig, **self.checked(config.SchedulerConfig, own)),
            cache_config=cache, model_config=model,
            parallel_config=Settings(config.ParallelConfig), use_v2_model_runner=False,
            observability_config=Settings(config.ObservabilityConfig),
            attention_config=Settings(), aux_output_config=Settings(enabled=False),
            ec_manager_config=Settings(get_encoder_cache_manager_obj=lambda: None),
            speculative_config=self.speculation(config))

    @staticmethod
    def checked(like, values):
        """The release's own checks of its scheduler's parameters, if it can be built here."""
        built = like(**{name: value for name, value in values.items()
                        if name in inspect.signature(like).parameters})
        names = like.__dataclass_fields__
        return values | {name: getattr(built, name) for name in names if hasattr(built, name)}

    def speculation(self, config):
        if not self.drafts_max:
            return None
        method = self.params["spec_method"]
        return Settings(
            None, method=method, num_speculative_tokens=self.drafts_max,
            use_eagle=lambda: method == "eagle", use_eagle_block_drop=lambda: False,
            needs_eagle_block_drop=lambda: False, use_dspark=lambda: False,
            uses_draft_model=lambda: method == "draft_model", use_dflash=lambda: False,
            use_multi_module_mtp=lambda: False, parallel_drafting=False,
            max_num_new_slots_for_drafting=self.params["draft_slots"],
            num_speculative_tokens_per_batch_size=None, disable_lookahead_block_hashes=True,
            draft_model_config=Settings(hf_config=Settings()), use_ngram_gpu=lambda: False,
            uses_extract_hidden_states=lambda: False, use_gemma4_mtp=lambda: False)

    def build(self):
        from vllm.v1.core import kv_cache_utils
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        import torch
        from vllm.utils.hashing import sha256
        size = self.case["kv"]["block_size"]
        spec = FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=1, dtype=torch.float16)
        cache = KVCacheConfig(**accepted(KVCacheConfig, {
            "num_blocks": self.case["kv"]["blocks"] + 1, "kv_cache_tensors": [],
            "kv_cache_groups": [KVCacheGroupSpec(["layer"], spec)], "hash_block_size": size}))
        kv_cache_utils.init_none_hash(sha256)
        kind = AsyncScheduler if self.asynchronous else Scheduler
        scheduler = kind(**accepted(Scheduler, {
            "vllm_config": self.config(), "kv_cache_config": cache, "block_size": size,
            "structured_output_manager": Settings(accept_tokens=lambda *_, **__: True,
                                                  should_advance=lambda *_, **__: False,
                                                  validate_tokens=lambda request, tokens: tokens),
            "mm_registry": Settings(
                supports_multimodal_inputs=lambda _: False),
            "log_stats": False, "hash_block_size": size}))
        preempt = scheduler._preempt_request

        def noted(request, *values, **named):
            self.preempted.append(int(request.request_id))
            return preempt(request, *values, **named)

        scheduler._preempt_request = noted
        hasher = kv_cache_utils.get_request_block_hasher(size, sha256) \
            if self.params["enable_prefix_caching"] else None
        return scheduler, hasher

    def add(self, entry):
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request
        tokens = entry.get("tokens") or [10 + entry["id"]] * entry["prompt"]
        sampling = SamplingParams(max_tokens=entry["max_new"], stop_token_ids=[STOP_TOKEN])
        self.scheduler.add_request(Request(**accepted(Request.__init__, {
            "request_id": str(entry["id"]), "prompt_token_ids": list(tokens),
            "sampling_params": sampling, "pooling_params": None, "eos_token_id": None,
            "arrival_time": float(entry["id"]), "priority": entry.get("priority", 0),
            "block_hasher": self.hasher})))

    def free(self):
        return self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()

    def schedule(self, iteration):
        """Calls the scheduler; returns its output and the record of this iteration."""
        self.preempted = []
        output = self.scheduler.schedule()
        cached = output.scheduled_cached_reqs
        admitted = [(int(new.req_id), new.num_computed_tokens)
                    for new in output.scheduled_new_reqs]
        resumed = getattr(cached, "resumed_req_ids", ())
        admitted += [(int(name), computed) for name, computed
                     in zip(cached.req_ids, cached.num_computed_tokens) if name in resumed]
        before = {int(name): computed for name, computed
                  in zip(cached.req_ids, cached.num_computed_tokens)} | dict(admitted)
        order = {int(name): place for place, name in enumerate(output.num_scheduled_tokens)}
        admitted.sort(key=lambda entry: order[entry[0]])
        for index, _ in admitted:
            self.targets[index] = self.scheduler.requests[str(index)].num_tokens
        work, emitting = [], []
        for name, tokens in output.num_scheduled_tokens.items():
            index = int(name)
            work.append([index, "P" if before[index] < self.targets[index] else "D", tokens])
            drafts = len(output.scheduled_spec_decode_tokens.get(name, ()))
            emits = before[index] + tokens >= self.targets[index]
            emitting.append((index, drafts, emits, before[index] < self.targets[index]))
        drafts = [[index, count] for index, count, _, _ in emitting if count]
        return output, emitting, self.record(iteration, work, admitted, drafts)

    def record(self, iteration, work, hits, drafts):
        step = {"it": iteration, "work": work, "preempted": self.preempted}
        if self.params["enable_prefix_caching"]:
            step["hits"] = [list(entry) for entry in hits]
        if self.drafts_max:
            step["drafts"] = drafts
        step["free"] = self.free()
        self.steps.append(step)
        self.preempted = []
        return step

    def tokens(self, index, count):
        """The next tokens of a request: its last one is a stop token if it ends by itself."""
        entry, first = self.requests[index], self.emitted[index]
        values = []
        for place in range(first, first + count):
            stops = place == entry["output"] - 1 and entry["output"] < entry["max_new"]
            values.append(STOP_TOKEN if stops else 1_000_000 * (index + 1) + place)
        return values

    def process(self, output, emitting, step):
        """Hands the results of a batch to the scheduler; completes the record."""
        from vllm.v1.outputs import ModelRunnerOutput
        names = [str(index) for index, _, _, _ in emitting]
        sampled, verified, emitted, offers = [], [], [], {}
        for index, drafts, emits, prefill in emitting:
            if not emits or str(index) not in self.scheduler.requests:
                sampled.append([0] if emits else [])
                continue
            script = self.requests[index].get("accept") or [0]
            item = self.emitting_items[index]
            accepted_drafts = 0 if prefill else min(drafts, script[item % len(script)])
            if drafts:
                verified.append([index, drafts, accepted_drafts])
            sampled.append(self.tokens(index, accepted_drafts + 1))
            propose = self.requests[index].get("propose") or [self.drafts_max]
            offers[str(index)] = min(self.drafts_max, propose[item % len(propose)])
            self.emitting_items[index] += 1
        counts = {name: self.scheduler.requests[name].num_output_tokens
                  for name in names if name in self.scheduler.requests}
        requests = {name: self.scheduler.requests[name] for name in counts}
        results = self.scheduler.update_from_output(output, ModelRunnerOutput(**accepted(
            ModelRunnerOutput, {"req_ids": names, "sampled_token_ids": sampled,
                                "req_id_to_index": {name: i for i, name in enumerate(names)},
                                "logprobs": None, "prompt_logprobs_dict": {},
                                "pooler_output": None})))
        for name, request in requests.items():
            new = request.num_output_tokens - counts[name]
            self.emitted[int(name)] += new
            if new:
                emitted.append([int(name), new])
        if self.drafts_max and not self.asynchronous:
            from vllm.v1.outputs import DraftTokenIds
            self.scheduler.update_draft_token_ids(DraftTokenIds(
                list(offers), [[7] * count for count in offers.values()]))
        if self.drafts_max:
            step["verified"], step["emitted"] = verified, emitted
        return sorted(int(result.request_id) for group in results.values()
                      for result in group.outputs if result.finish_reason is not None)

    def run(self, iterations_max):
        pending = collections.deque(self.requests)
        queue = collections.deque()
        iteration = 0
        while pending or self.scheduler.has_unfinished_requests():
            iteration += 1
            if not queue and not self.scheduler.has_unfinished_requests():
                iteration = max(iteration, pending[0]["step"])
            if iteration > iterations_max:
                break
            while pending and pending[0]["step"] <= iteration:
                self.add(pending.popleft())
            self.one_pass(iteration, queue)
        return self.steps

    def one_pass(self, iteration, queue):
        """One pass of the engine's loop. With a queue, a batch returns when the queue is full or
        nothing was scheduled."""
        if not self.asynchronous:
            output, emitting, step = self.schedule(iteration)
            step["finished"] = self.process(output, emitting, step)
            step["free_after"] = self.free()
            return
        go_on = False
        if self.scheduler.has_requests():
            output, emitting, step = self.schedule(iteration)
            queue.append((iteration, output, emitting))
            go_on = bool(emitting) or (self.keeps_queueing and self.scheduler.has_requests())
        else:
            step = self.record(iteration, [], [], [])
        step["returned"], step["finished"] = 0, []
        if self.drafts_max:
            step["verified"], step["emitted"] = [], []
        if not (len(queue) < 2 and go_on):
            step["returned"], output, emitting = queue.popleft()
            step["finished"] = self.process(output, emitting, step)
        step["free_after"] = self.free()


def decide(case, iterations_max=400):
    """The steps that the installed release decides."""
    import vllm
    Original.keeps_queueing = queue_rule(vllm.__file__)
    return Original(case).run(iterations_max)


def fields():
    """The parameters of a case that the installed release has."""
    import vllm.config as config
    from vllm.v1.core.sched import async_scheduler, scheduler  # noqa: F401 (what is to be there)
    drafts = ["num_speculative_tokens"] if hasattr(config.VllmConfig, "num_lookahead_tokens") else []
    return sorted(config.SchedulerConfig.__dataclass_fields__) + drafts


def settings():
    """The classes whose fields and defaults decide, or say what may be set."""
    import vllm.config as config
    return [config.SchedulerConfig, config.CacheConfig, config.ParallelConfig,
            config.SpeculativeConfig]
