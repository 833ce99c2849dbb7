"""A release of vLLM, as it is installed: its scheduler without a model, a GPU or PyTorch.

Imports nothing of vLLM by itself: its functions are called once the release can be imported.
"""
import dataclasses
import functools
import inspect

# Parameters of the scheduler that are fields of the release's SchedulerConfig.
PARAMETERS = ["max_num_batched_tokens", "max_num_seqs", "policy", "async_scheduling",
              "long_prefill_token_threshold", "long_prefill_token_threshold_adaptive",
              "scheduler_reserve_full_isl", "watermark", "prefill_schedule_interval",
              "max_num_active_seqs", "max_num_scheduled_tokens"]


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


@functools.cache
def names_of(function):
    return frozenset(inspect.signature(function).parameters)


def accepted(function, values):
    """Of the keyword arguments, those that the function has."""
    names = names_of(function)
    return {name: value for name, value in values.items() if name in names}


def checked(like, values):
    """The release's own checks of its scheduler's parameters, if it can be built here."""
    built = like(**accepted(like, values))
    names = like.__dataclass_fields__
    return values | {name: getattr(built, name) for name in names if hasattr(built, name)}


def scheduler_config(params):
    """The release's SchedulerConfig of the parameters. Raises ValueError as the release does, and
    where it has no such parameter."""
    import vllm.config as config
    fields = config.SchedulerConfig.__dataclass_fields__
    own = {"max_model_len": params["max_model_len"], "is_encoder_decoder": False,
           "enable_chunked_prefill": params["enable_chunked_prefill"]}
    own |= {name: params[name] for name in PARAMETERS if name in params and name in fields}
    unknown = [name for name in PARAMETERS if params.get(name) and name not in fields]
    if unknown:
        raise ValueError(f"this release has no {unknown[0]}")
    return Settings(config.SchedulerConfig, **checked(config.SchedulerConfig, own))


def configuration(params, block_size, blocks, speculation=None, **cache_values):
    """The release's VllmConfig with `blocks` usable blocks: vLLM keeps one more, its null block."""
    import vllm.config as config
    cache = Settings(config.CacheConfig, block_size=block_size, num_gpu_blocks=blocks + 1,
                     enable_prefix_caching=params["enable_prefix_caching"], **cache_values)
    model = Settings(config.ModelConfig, max_model_len=params["max_model_len"],
                     runner_type="generate", is_encoder_decoder=False, uses_mrope=False,
                     supports_multimodal_inputs=False, is_multimodal_model=False,
                     is_diffusion=False, enable_return_routed_experts=False,
                     return_sampling_mask=False, multimodal_config=None, is_hybrid=False)
    return Settings(
        config.VllmConfig, scheduler_config=scheduler_config(params), cache_config=cache,
        model_config=model, parallel_config=Settings(config.ParallelConfig),
        use_v2_model_runner=False, observability_config=Settings(config.ObservabilityConfig),
        attention_config=Settings(), aux_output_config=Settings(enabled=False),
        ec_manager_config=Settings(get_encoder_cache_manager_obj=lambda: None),
        speculative_config=speculation)


def group_spec(group):
    """What the release's KV cache holds of the layers of a group {kind, block_size, window | chunk |
    mode}."""
    import torch
    from vllm.v1 import kv_cache_interface as interface
    heads = {"num_kv_heads": 1, "head_size": 1, "dtype": torch.float16}
    kinds = {"full": ("FullAttentionSpec", heads),
             "window": ("SlidingWindowSpec", heads | {"sliding_window": group.get("window")}),
             "chunked": ("ChunkedLocalAttentionSpec",
                         heads | {"attention_chunk_size": group.get("chunk")}),
             "state": ("MambaSpec", {"shapes": ((1,),), "dtypes": (torch.float16,),
                                     "mamba_cache_mode": group.get("mode")})}
    name, values = kinds[group["kind"]]
    kind = getattr(interface, name)
    return kind(**accepted(kind, {"block_size": group["block_size"], "use_mla": False} | values))


def make_scheduler(kind, vllm_config, block_size, blocks, groups=None, hash_block_size=None):
    """An object of the class `kind`, a scheduler of the release, with `blocks` usable blocks.
    `groups`: KV groups (group_spec), one of all tokens unless given."""
    from vllm.utils.hashing import sha256
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec
    groups = groups or [{"kind": "full", "block_size": block_size}]
    hash_block_size = hash_block_size or block_size
    cache = KVCacheConfig(**accepted(KVCacheConfig, {
        "num_blocks": blocks + 1, "kv_cache_tensors": [],
        "kv_cache_groups": [KVCacheGroupSpec([f"layer{place}"], group_spec(group))
                            for place, group in enumerate(groups)],
        "hash_block_size": hash_block_size,
        "prefix_cache_retention_interval":
            vllm_config.cache_config.prefix_cache_retention_interval}))
    kv_cache_utils.init_none_hash(sha256)
    return kind(**accepted(Scheduler, {
        "vllm_config": vllm_config, "kv_cache_config": cache, "block_size": block_size,
        "structured_output_manager": Settings(accept_tokens=lambda *_, **__: True,
                                              should_advance=lambda *_, **__: False,
                                              validate_tokens=lambda request, tokens: tokens),
        "mm_registry": Settings(supports_multimodal_inputs=lambda _: False),
        "log_stats": False, "hash_block_size": hash_block_size}))


def model_output(names, sampled):
    """What the model runner returns for the requests `names`: the tokens of each."""
    from vllm.v1.outputs import ModelRunnerOutput
    return ModelRunnerOutput(**accepted(ModelRunnerOutput, {
        "req_ids": names, "sampled_token_ids": sampled,
        "req_id_to_index": {name: i for i, name in enumerate(names)},
        "logprobs": None, "prompt_logprobs_dict": {}, "pooler_output": None}))


def request_of(**values):
    """A request of the release, with those of the values that it has."""
    from vllm.v1.request import Request
    return Request(**accepted(Request.__init__, {"pooling_params": None, "eos_token_id": None}
                              | values))
