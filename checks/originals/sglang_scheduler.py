"""Runs SGLang's scheduler, as it is installed, on scheduling cases.

Executed: the scheduler's own choice of the next batch (prefill, mixed, decode, retraction,
preemption), its queue and result processor, Req, ScheduleBatch, SchedulePolicy, PrefillAdder, the
ratio tracker, the radix cache and both allocators. Scripted: the model's tokens. The two event
loops are written again here, from the scheduler of the release.
"""
import array
import collections
import contextlib
import os

CONTEXT = 100_000


class Quiet:
    """A part that decides nothing: whatever is asked of it is nothing, and false."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Quiet()

    def __call__(self, *_, **__):
        return Quiet()

    def __bool__(self):
        return False

    def _zero(self, *_):
        return 0

    __add__ = __radd__ = __mod__ = __int__ = __index__ = _zero

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Settings(Quiet):
    """A set of options: those given, and none for the others."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class OneProcess(dict):
    """The parallel layout of a single process: widths of 1, ranks of 0, nothing enabled."""

    def __contains__(self, name):
        return True

    def __missing__(self, name):
        return 0 if name.endswith("rank") else False if "enable" in name else 1


class OtherOptions(dict):
    """Sets of options by name; those that are not given are off."""

    def __contains__(self, name):
        return True

    def __missing__(self, name):
        return Quiet()


class SameBatch(Quiet):
    """A part that may change the batch, and leaves it."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda batch=None, *_, **__: batch


def publish(case):
    """Installs the case's parameters as the process's configuration."""
    from sglang.srt import runtime_context
    from sglang.srt.environ import envs
    params, context = case["params"], runtime_context.get_context()
    chunk = params["chunked_prefill_size"]
    context._config_bags = OtherOptions({
        "schedule": Settings(
            schedule_policy=params["schedule_policy"], chunked_prefill_size=chunk or -1,
            schedule_conservativeness=params["schedule_conservativeness"],
            prefill_max_requests=params.get("prefill_max_requests"),
            retraction_policy=params.get("retraction_policy", "length"),
            schedule_low_priority_values_first=params.get("low_priority_values_first", False)),
        "memory": Settings(radix_eviction_policy="lru"),
        "disagg": Settings(disaggregation_mode="null", disaggregation_decode_retraction_backup=""),
        "spec": Settings(), "serving": Settings(), "model": Settings(context_length=CONTEXT),
        "observability": Settings()})
    runtime_context.get_parallel()._overrides = OneProcess(
        pp_max_micro_batch_size=params["max_running_requests"])
    for name, value in {
            "SGLANG_INIT_NEW_TOKEN_RATIO": params["init_new_token_ratio"],
            "SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR": params["min_new_token_ratio_factor"],
            "SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS": params["new_token_ratio_decay_steps"],
            "SGLANG_RETRACT_DECODE_STEPS": params["retract_decode_steps"],
            "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION": params["clip_max_new_tokens"]}.items():
        os.environ[name] = str(value)
        with contextlib.suppress(AttributeError):
            getattr(envs, name).set(value)


def schedule_policy_thresholds(params):
    """Sets the module constants that are read from the environment at import."""
    from sglang.srt.managers import schedule_policy
    for name, value in {
            "CLIP_MAX_NEW_TOKENS": params["clip_max_new_tokens"],
            "IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD": params.get("in_batch_check_threshold", 32),
            "IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD":
                params.get("in_batch_deprioritize_threshold", 32)}.items():
        if hasattr(schedule_policy, name):
            setattr(schedule_policy, name, value)


def memory(case):
    """The request rows, the allocator and the tree of a case."""
    import torch
    from sglang.srt.mem_cache import memory_pool
    from sglang.srt.mem_cache.allocator import paged, token
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.unified_cache.components import ComponentType
    from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
    size, page = case["kv"]["blocks"] * case["kv"]["block_size"], case["kv"]["block_size"]
    rows = memory_pool.ReqToTokenPool(size=case["params"]["max_running_requests"],
                                      max_context_len=1024, device="cpu",
                                      enable_memory_saver=False)
    common = {"dtype": torch.float16, "device": "cpu", "kvcache": Quiet(device="cpu"),
              "need_sort": False}
    allocator = token.TokenToKVPoolAllocator(size, **common) if page == 1 \
        else paged.PagedTokenToKVPoolAllocator(size, page, **common)
    tree = UnifiedRadixCache(CacheInitParams(
        disable=not case["params"]["radix_cache"], req_to_token_pool=rows,
        token_to_kv_pool_allocator=allocator, page_size=page,
        tree_components=(ComponentType.FULL,)))
    return rows, allocator, tree


class Original:
    """The release's scheduler on one case, and the loop around it."""

    def __init__(self, case):
        publish(case)
        schedule_policy_thresholds(case["params"])
        self.case, self.params, self.requests = case, case["params"], case["requests"]
        self.requeued, self.steps = [], []
        self.live, self.admitted = {}, set()  # arrived and unfinished; since their latest queueing
        self.scheduler = self.build()

    def build(self):
        from sglang.srt.disaggregation.utils import DisaggregationMode
        from sglang.srt.managers import scheduler as module
        from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
        original = self

        class Scheduler(module.Scheduler):
            """Created without its constructor: what is not set here decides nothing."""

            def __init__(self):
                pass

            def __getattr__(self, name):
                return Quiet()

            def _add_request_to_queue(self, req, is_retracted=False):
                if original.queueing_again:
                    original.requeued.append(int(req.rid))
                super()._add_request_to_queue(req, is_retracted)

        self.queueing_again = False
        scheduler, params = Scheduler(), self.params
        rows, allocator, tree = memory(self.case)
        size, page = self.case["kv"]["blocks"] * self.case["kv"]["block_size"], allocator.page_size
        priority = bool(params.get("priority"))
        overlap, chunk = bool(params["overlap"]), params["chunked_prefill_size"]
        model = Settings(vocab_size=1 << 40, context_len=CONTEXT, is_encoder_decoder=False)
        for name, value in {
                "req_to_token_pool": rows, "token_to_kv_pool_allocator": allocator,
                "tree_cache": tree, "page_size": page, "model_config": model, "device": "cpu",
                "spec_algorithm": SpeculativeAlgorithm.NONE, "enable_overlap": overlap,
                "enable_overlap_mlx": False, "is_generation": True, "dllm_config": None,
                "max_total_num_tokens": size, "max_req_len": min(CONTEXT, size) - 1,
                "max_new_tokens_limit": None, "kv_shard_widening": 1, "sliding_window_size": None,
                "max_running_requests": params["max_running_requests"],
                "max_prefill_tokens": params["max_prefill_tokens"],
                "schedule_policy": params["schedule_policy"],
                "enable_priority_scheduling": priority,
                "schedule_low_priority_values_first":
                    params.get("low_priority_values_first", False),
                "enable_priority_preemption": priority and params.get("preemption", True),
                "priority_scheduling_preemption_threshold": params.get("preemption_threshold", 10),
                "abort_on_priority_when_disabled": False, "max_queued_requests": None,
                "disaggregation_mode": DisaggregationMode.NULL, "enable_hicache_storage": False,
                "chunked_prefill_size": chunk, "chunked_req": None,
                "is_mixed_chunk": chunk is not None and params["enable_mixed_chunk"],
                "dynamic_chunk_sizer": None, "min_free_slots_delayer": None, "truncation_align_size":
                    None, "prefill_decode_interval": 0, "_prefill_decode_interval_remaining": 0,
                "waiting_queue": [], "last_batch": None, "result_queue": collections.deque(),
                "enable_skip_finishing_decode": overlap, "processed_tokens_counter": 0,
                "decode_offload_manager": None, "_pending_chunked_abort_req": None,
                "lora_drainer": None, "hisparse_coordinator": None, "forward_ct": 0,
                "dp_attn_adapter": SameBatch(), "ngram_embedding_manager": SameBatch(),
                "draft_worker": None, "require_mlp_sync": False, "enable_lora": False,
                "beam_coordinator": Quiet(pending_member_rows=lambda _: 0),
                "load_inquirer": Quiet(_get_num_pending_tokens=lambda **_: 0),
                "tp_worker": Quiet(model_runner=Quiet(attn_backend=object()))}.items():
            setattr(scheduler, name, value)
        scheduler.running_batch = module.ScheduleBatch(reqs=[], batch_is_full=False)
        scheduler.init_schedule_policy()
        scheduler.enable_priority_preemption = priority and params.get("preemption", True)
        scheduler.batch_result_processor = self.result_processor(scheduler)
        return scheduler

    @staticmethod
    def result_processor(scheduler):
        from sglang.srt.managers.scheduler_components import batch_result_processor as module
        kind = module.SchedulerBatchResultProcessor
        return kind(**{name: getattr(scheduler, name) for name in kind.__dataclass_fields__})

    def add(self, entry):
        from sglang.srt.managers.schedule_batch import Req
        from sglang.srt.sampling.sampling_params import SamplingParams
        tokens = entry.get("tokens") or [10_000_000 * (entry["id"] + 1) + place
                                         for place in range(entry["prompt"])]
        # The token that ends a request is one of its own: with overlap it can come into the tree.
        stop = self.token_id(entry, entry["output"] - 1)
        sampling = SamplingParams(max_new_tokens=entry["max_new"], stop_token_ids=[stop],
                                  ignore_eos=entry.get("ignore_eos", False))
        sampling.normalize(None)
        request = Req(str(entry["id"]), "", array.array("q", tokens), sampling,
                      priority=entry.get("priority"), vocab_size=1 << 40)
        self.scheduler.init_req_max_new_tokens(request)
        self.scheduler._add_request_to_queue(request)
        self.live[entry["id"]] = request

    @staticmethod
    def token_id(entry, place):
        return 1_000_000 * (entry["id"] + 1) + place

    def token(self, request):
        """The next token of a request."""
        return self.token_id(self.requests[int(request.rid)], len(request.output_ids))

    def pages(self):
        allocator, tree = self.scheduler.token_to_kv_pool_allocator, self.scheduler.tree_cache
        page = allocator.page_size
        return allocator.available_size() // page, tree.evictable_size() // page

    def describe(self, batch):
        """The work of a batch, and the hits of the requests that it admits."""
        work, hits = [], []
        decoding = {id(request) for request in batch.decoding_reqs or ()}
        for request in batch.reqs:
            index = int(request.rid)
            if batch.forward_mode.is_decode() or id(request) in decoding:
                work.append([index, "D", 1])
                continue
            work.append([index, "P", request.extend_end - request.prefix_len])
            if index not in self.admitted:
                self.admitted.add(index)
                hits.append([index, request.prefix_len])
        return work, hits

    def schedule(self, iteration):
        """Calls the scheduler; returns the batch and the record of this iteration."""
        scheduler = self.scheduler
        self.requeued, self.queueing_again = [], True
        plan = scheduler.get_next_batch_to_run(running_batch=scheduler.running_batch,
                                               last_batch=scheduler.last_batch)
        self.queueing_again = False
        scheduler.running_batch, batch = plan.running_batch, plan.batch_to_run
        self.admitted -= set(self.requeued)
        work, hits = self.describe(batch) if batch else ([], [])
        step = {"it": iteration, "work": work, "preempted": self.requeued}
        if self.params["radix_cache"]:
            step["hits"] = hits
        step["free"], cached = self.pages()
        if self.params["radix_cache"]:
            step["cached"] = cached
        step["ratio"] = scheduler.new_token_ratio_tracker.current
        self.steps.append(step)
        return batch, step

    def forward(self, batch):
        """The results of a batch, as the worker would hand them back."""
        import torch
        from sglang.srt.managers.utils import GenerationBatchResult
        return GenerationBatchResult(next_token_ids=torch.zeros(len(batch.reqs), dtype=torch.int64),
                                     logits_output=None)

    def process(self, batch, result):
        """Hands the results of a batch to the scheduler; returns who finished."""
        import torch
        result.next_token_ids = torch.tensor([self.token(request) for request in batch.reqs])
        before = {request.rid for request in batch.reqs if request.finished()}
        processor = self.scheduler.batch_result_processor
        if batch.forward_mode.is_decode():
            processor.process_batch_result_decode(batch, result)
        else:
            processor.process_batch_result_prefill(batch, result)
        finished = sorted(int(request.rid) for request in batch.reqs
                          if request.finished() and request.rid not in before)
        for index in finished:
            del self.live[index]
        return finished

    def run(self, iterations_max):
        scheduler, pending = self.scheduler, collections.deque(self.requests)
        queue, iteration = collections.deque(), 0
        while pending or self.live or queue:
            iteration += 1
            if not self.live and not queue and pending[0]["step"] > iteration:
                iteration = pending[0]["step"]
                scheduler.new_token_ratio_tracker.reset()  # what its idle handler does
                scheduler.last_batch = None
            if iteration > iterations_max:
                break
            while pending and pending[0]["step"] <= iteration:
                self.add(pending.popleft())
            batch, step = self.schedule(iteration)
            overlap = scheduler.enable_overlap
            if overlap:
                step["returned"] = queue[0][0] if queue else 0
            step["finished"] = []
            if batch and overlap:
                scheduler.result_queue.append((batch.copy(), self.forward(batch)))
                queue.append((iteration, *scheduler.result_queue[-1]))
            elif batch:
                step["finished"] = self.process(batch, self.forward(batch))
            if overlap and step["returned"]:
                scheduler.result_queue.popleft()
                step["finished"] = self.process(*queue.popleft()[1:])
            step["free_after"], cached = self.pages()
            if self.params["radix_cache"]:
                step["cached_after"] = cached
            scheduler.last_batch = batch
        return self.steps


def decide(case, iterations_max=400):
    """The steps that the installed release decides."""
    return Original(case).run(iterations_max)


def fields():
    """The installed release has all parameters of a case."""
    from sglang.srt.managers import scheduler  # noqa: F401 (what is to be there)
    return []


def settings():
    """The class of what a server may be started with."""
    from sglang.srt.server_args import ServerArgs
    return [ServerArgs]
