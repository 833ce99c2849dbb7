"""Runs vLLM's V1 scheduler, as it is installed, on scheduling cases.

Executed: Scheduler or AsyncScheduler, the KV cache manager, Request and its block hasher. Scripted:
the model's tokens and the drafts. The two engine loops (synchronous; a queue of two batches) are
written again here, from the engine core of the release.
"""
import collections
import pathlib

from engines import vllm_release
from engines.vllm_release import Settings

STOP_TOKEN = 3


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

    def speculation(self):
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

    def cache_settings(self):
        """Fields of the release's CacheConfig that the KV groups of the case need."""
        groups = self.case["kv"].get("groups")
        if not groups:
            return {}
        modes = [group["mode"] for group in groups if group["kind"] == "state"]
        return {"mamba_cache_mode": modes[0] if modes else "none",
                "prefix_cache_retention_interval":
                    self.params.get("prefix_cache_retention_interval", 0)}

    def build(self):
        from vllm.utils.hashing import sha256
        from vllm.v1.core import kv_cache_utils
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler
        kv = self.case["kv"]
        size, blocks = kv.get("scheduler_block_size", kv["block_size"]), kv["blocks"]
        config = vllm_release.configuration(self.params, size, blocks, self.speculation(),
                                            **self.cache_settings())
        hash_size = kv.get("hash_block_size", size)
        scheduler = vllm_release.make_scheduler(
            AsyncScheduler if self.asynchronous else Scheduler, config, size, blocks,
            kv.get("groups"), hash_size)
        preempt = scheduler._preempt_request

        def noted(request, *values, **named):
            self.preempted.append(int(request.request_id))
            return preempt(request, *values, **named)

        scheduler._preempt_request = noted
        hasher = kv_cache_utils.get_request_block_hasher(hash_size, sha256) \
            if self.params["enable_prefix_caching"] else None
        return scheduler, hasher

    def add(self, entry):
        from vllm.sampling_params import SamplingParams
        tokens = entry.get("tokens") or [10 + entry["id"]] * entry["prompt"]
        sampling = SamplingParams(max_tokens=entry["max_new"], stop_token_ids=[STOP_TOKEN])
        self.scheduler.add_request(vllm_release.request_of(
            request_id=str(entry["id"]), prompt_token_ids=list(tokens), sampling_params=sampling,
            arrival_time=float(entry["id"]), priority=entry.get("priority", 0),
            block_hasher=self.hasher))

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
        results = self.scheduler.update_from_output(
            output, vllm_release.model_output(names, sampled))
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
    cache = {"prefix_cache_retention_interval"} & set(config.CacheConfig.__dataclass_fields__)
    return sorted(config.SchedulerConfig.__dataclass_fields__) + drafts + sorted(cache)


def settings():
    """The classes whose fields and defaults decide, or say what may be set."""
    import vllm.config as config
    return [config.SchedulerConfig, config.CacheConfig, config.ParallelConfig,
            config.SpeculativeConfig]
