#!/usr/bin/env python3
"""Makes the reference models whose layers differ, or attend in another way than to plain heads.

Usage: make_layered_models.py [--out tests/golden/models] [NAME...]

Needs PyTorch, transformers 5.17 and safetensors; a CPU is enough. As make_attention_models.py, whose
files and tolerances these models have, with two differences: mixtures of experts state no tolerance
for bfloat16, because rounding changes which experts are chosen, and the library's operations for
experts and linear attention are those of its plain PyTorch code.
"""
import argparse
import contextlib
import importlib
import json
import math
import pathlib

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM
from transformers import modeling_rope_utils

VOCAB = 96
NEW_TOKENS = 16
PROMPT_LENGTHS = (1, 9, 40, 75, 110)
ALL_LOGITS_PROMPT = 3

COMMON = {"hidden_size": 32, "vocab_size": VOCAB, "max_position_embeddings": 256,
          "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "bos_token_id": 1,
          "eos_token_id": VOCAB - 1}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0,
        "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 0.7, "mscale_all_dim": 0.9}
LATENT = {"num_hidden_layers": 3, "first_k_dense_replace": 1, "num_attention_heads": 4,
          "num_key_value_heads": 4, "kv_lora_rank": 24, "qk_nope_head_dim": 12,
          "qk_rope_head_dim": 8, "v_head_dim": 10, "intermediate_size": 48,
          "moe_intermediate_size": 20, "n_shared_experts": 2, "n_routed_experts": 12,
          "num_experts_per_tok": 3}

# Model type, fields of the config, and mistakes: fields that are read wrongly, or tensors that are
# set to a number, rolled by a half or flipped.
MODELS = {
    "layered-deepseek-v3": (
        "deepseek_v3",
        LATENT | {"q_lora_rank": 20, "n_group": 4, "topk_group": 2, "norm_topk_prob": True,
                  "routed_scaling_factor": 2.5, "rope_parameters": YARN},
        {"pairs half a head apart": {"rope_interleave": False},
         "one group of experts kept": {"topk_group": 1, "num_experts_per_tok": 3},
         "all groups of experts kept": {"topk_group": 4},
         "weights of experts not normalised": {"norm_topk_prob": False},
         "weights of experts not scaled": {"routed_scaling_factor": 1.0},
         "scores not scaled by YaRN": {"rope_parameters": YARN | {"mscale": 0.7,
                                                                  "mscale_all_dim": 0.0}},
         "no YaRN": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}}),
    "layered-deepseek-v2": (
        "deepseek_v2",
        LATENT | {"q_lora_rank": None, "n_group": 4, "topk_group": 2,
                  "topk_method": "group_limited_greedy", "norm_topk_prob": False,
                  "routed_scaling_factor": 16.0,
                  "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        {"experts of all groups": {"topk_method": "greedy"},
         "weights of experts not scaled": {"routed_scaling_factor": 1.0},
         "rope_theta 20000": {"rope_parameters": {"rope_type": "default",
                                                  "rope_theta": 20000.0}}}),
    "layered-gpt-oss": (
        "gpt_oss",
        {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "sliding_window": 20, "intermediate_size": 24, "num_local_experts": 8,
         "num_experts_per_tok": 3,
         "rope_parameters": {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0,
                             "original_max_position_embeddings": 32, "beta_fast": 32.0,
                             "beta_slow": 1.0, "truncate": False}},
        {"window smaller by one": {"sliding_window": 19},
         "windows in all layers": {"layer_types": ["sliding_attention"] * 4},
         "windows in the other layers": {"layer_types": ["full_attention",
                                                         "sliding_attention"] * 2},
         "limits of YaRN rounded": {"rope_parameters": {
             "rope_type": "yarn", "rope_theta": 150000.0, "factor": 8.0,
             "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
             "truncate": True}},
         "no sinks": {"sinks": -1e9},
         "sinks of other heads": {"sinks": "roll"}}),
    "layered-qwen3-next": (
        "qwen3_next",
        {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 16, "partial_rotary_factor": 0.25, "linear_num_key_heads": 2,
         "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 20,
         "linear_conv_kernel_dim": 4, "num_experts": 8, "num_experts_per_tok": 3,
         "moe_intermediate_size": 20, "shared_expert_intermediate_size": 28,
         "norm_topk_prob": True, "intermediate_size": 48,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                             "partial_rotary_factor": 0.25}},
        {"weights of experts not normalised": {"norm_topk_prob": False},
         "twice as many dimensions rotated": {"rope_parameters": {
             "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
         "value heads of other key heads": {"A_log": "roll"},
         "taps of the convolution reversed": {"conv1d.weight": "flip"}}),
    "layered-olmo2": (
        "olmo2",
        {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 48,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        {"rope_theta 20000": {"rope_parameters": {"rope_type": "default",
                                                  "rope_theta": 20000.0}},
         "gains of other heads": {"q_norm.weight": "roll"}}),
    "layered-minimax-m2": (
        "minimax_m2",
        {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
         "intermediate_size": 20, "num_local_experts": 8, "num_experts_per_tok": 3,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                             "partial_rotary_factor": 0.5}},
        {"all dimensions rotated": {"rope_parameters": {
             "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}},
         "no selection bias": {"e_score_correction_bias": 0.0},
         "gains of other heads": {"q_norm.weight": "roll"}}),
}


class DoubleTorch:
    """The module torch, except that single precision is double."""

    float32 = torch.float64
    float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


class OnlyDouble(TorchDispatchMode):
    """Stops at an operation that yields fewer than 64 bits."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                if tensor.dtype != torch.float64:
                    raise RuntimeError(f"{func} yields {tensor.dtype}")
        return result


@contextlib.contextmanager
def double_precision(family):
    modeling = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    cast = torch.Tensor.float
    try:
        for module in (modeling, modeling_rope_utils):
            module.torch = DoubleTorch()
        torch.Tensor.float = torch.Tensor.double
        yield
    finally:
        torch.Tensor.float = cast
        for module in (modeling, modeling_rope_utils):
            module.torch = torch


def draw_weights(model, seed):
    """Scores of attention have a standard deviation of about 2, so that few keys matter to a query;
    logits one of about 3. Norm weights differ from 1, or from 0 where 1 is added to them."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in sorted(model.state_dict().items()):
        noise = torch.randn(tensor.shape, generator=generator)
        around_zero = type(model).__name__.startswith("Qwen3Next") and "linear_attn" not in name
        if name.endswith("e_score_correction_bias"):
            value = 0.2 * noise
        elif name.endswith("bias") or name.endswith("A_log"):
            value = 0.5 * noise
        elif name.endswith("sinks"):
            value = 2 * noise
        elif tensor.dim() == 1:
            value = 0.2 * noise if around_zero else 1 + 0.2 * noise
        else:
            stacked = tensor.dim() == 3 and "conv1d" not in name and "gpt_oss" in type(
                model).__module__
            fan_in = 1 if "embed" in name else tensor.shape[-2 if stacked else -1]
            gain = 3 if "lm_head" in name else 1.4 if "q_" in name or "kv_b" in name else 1
            value = noise * gain / math.sqrt(fan_in)
        tensor.copy_(value)


def change_tensors(model, ending, change):
    found = [tensor for name, tensor in model.state_dict().items() if name.endswith(ending)]
    for tensor in found:
        if change == "roll":
            tensor.copy_(tensor.roll(tensor.shape[0] // 2, 0))
        elif change == "flip":
            tensor.copy_(tensor.flip(-1))
        else:
            tensor.fill_(change)
    return bool(found)


def load(folder, dtype, changes=None):
    config = AutoConfig.from_pretrained(folder)
    for field, value in (changes or {}).items():
        setattr(config, field, value)
    model = AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=dtype, attn_implementation="eager",
        experts_implementation="eager")
    # Buffers that the library keeps in single precision.
    model = model.to(dtype).eval()
    for field, value in (changes or {}).items():
        if not change_tensors(model, field, value) and not hasattr(AutoConfig.from_pretrained(
                folder), field):
            raise ValueError(f"nothing is named {field}")
    return model


@torch.no_grad()
def logits_of(model, tokens):
    return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]


def greedy(model, prompt):
    tokens, margins, logprobs = list(prompt), [], []
    for _ in range(NEW_TOKENS):
        last = logits_of(model, tokens)[-1]
        best = torch.topk(last, 2)
        tokens.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        logprobs.append(float(torch.log_softmax(last, -1)[tokens[-1]]))
    return tokens[len(prompt):], margins, logprobs


def distances(model, prompts, expected):
    """The worst relative L2 and absolute distance from the reference, over all positions."""
    relative = absolute = 0.0
    for prompt, reference in zip(prompts, expected):
        gap = logits_of(model, prompt).double() - reference
        relative = max(relative, float((gap.norm(dim=1) / reference.norm(dim=1)).max()))
        absolute = max(absolute, float(gap.abs().max()))
    return {"rel_l2": relative, "max_abs": absolute}


def make(name, folder, seed):
    folder.mkdir(parents=True, exist_ok=True)
    family, fields, wrong_fields = MODELS[name]
    config = AutoConfig.for_model(family, **(COMMON | fields))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    draw_weights(model, seed)
    kept = {key for key in model.state_dict() if key.endswith("e_score_correction_bias")}
    model = model.to(torch.bfloat16)
    for key, tensor in model.state_dict(keep_vars=True).items():
        if key in kept:
            tensor.data = tensor.data.float()
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    generator = torch.Generator().manual_seed(seed + 1)
    prompts = [torch.randint(0, VOCAB - 1, (length,), generator=generator).tolist()
               for length in PROMPT_LENGTHS]
    with double_precision(family):
        exact = load(folder, torch.float64)
        with OnlyDouble():
            expected = [logits_of(exact, prompt) for prompt in prompts]
            generated = [greedy(exact, prompt) for prompt in prompts]
        wrong = {what: distances(load(folder, torch.float64, changes), prompts[-2:],
                                 expected[-2:])["rel_l2"]
                 for what, changes in wrong_fields.items()}
    measured = {"fp32_compute": distances(load(folder, torch.float32), prompts, expected),
                "bf16_weights_and_compute": distances(load(folder, torch.bfloat16), prompts,
                                                      expected)}
    write(name, folder, prompts, expected, generated, measured, wrong)


def write(name, folder, prompts, expected, generated, measured, wrong):
    single, half = measured["fp32_compute"], measured["bf16_weights_and_compute"]
    tolerance = {"fp32": {"rel_l2": max(20 * single["rel_l2"], 1e-5),
                          "margin": max(40 * single["max_abs"], 1e-4)}, "bf16": None}
    if "experts_per_tok" not in "".join(MODELS[name][1]):
        tolerance["bf16"] = {"rel_l2": max(2 * half["rel_l2"], 2e-2),
                             "margin": max(2 * half["max_abs"], 5e-2)}
    facts = {"about": "layers that differ, or another attention than to plain heads",
             "model_type": MODELS[name][0], "name": name,
             "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
             "logits_all_prompt": ALL_LOGITS_PROMPT, "new_tokens": NEW_TOKENS,
             "prompt_lengths": PROMPT_LENGTHS, "measured": measured, "mistakes_rel_l2": wrong,
             "tolerance": tolerance}
    (folder / "expected.json").write_text(json.dumps(facts, indent=2) + "\n")
    tensors = {f"logits_all_{ALL_LOGITS_PROMPT}": expected[ALL_LOGITS_PROMPT]}
    for i, (tokens, margins, logprobs) in enumerate(generated):
        tensors[f"prompt_{i}"] = torch.tensor(prompts[i], dtype=torch.int32)
        tensors[f"last_logits_{i}"] = expected[i][-1].clone()
        tensors[f"greedy_{i}"] = torch.tensor(tokens, dtype=torch.int32)
        tensors[f"greedy_margin_{i}"] = torch.tensor(margins)
        tensors[f"greedy_logprob_{i}"] = torch.tensor(logprobs)
    save_file({key: value if value.dtype == torch.int32 else value.to(torch.float32)
               for key, value in tensors.items()}, folder / "expected.safetensors")
    print(f"{name}: fp32 {single['rel_l2']:.1e}, bf16 {half['rel_l2']:.1e}, least mistake "
          f"{min(wrong.items(), key=lambda item: item[1])}, "
          f"{sum(f.stat().st_size for f in folder.iterdir()) >> 10} KiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for number, name in enumerate(MODELS):
        if name in arguments.names:
            make(name, arguments.out / name, 20280 + 2 * number)


if __name__ == "__main__":
    main()
