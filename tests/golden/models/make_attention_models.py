#!/usr/bin/env python3
"""Makes the reference models whose heads are of the sizes that GPU attention kernels take.

Usage: make_attention_models.py [--out tests/golden/models] [NAME...]

Needs PyTorch, transformers 4.55 and safetensors; a CPU is enough. Each model is a folder with random
weights in bfloat16, and the logits and greedy tokens that transformers computes for them in double
precision (README.md describes the files). The casts to single precision inside the library are
redirected to double precision, and the run stops if an operation still yields less.
"""
import argparse
import contextlib
import json
import math
import pathlib

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM
from transformers import modeling_rope_utils
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.qwen3 import modeling_qwen3

VOCAB = 160
NEW_TOKENS = 24
PROMPT_LENGTHS = (1, 17, 300, 330, 511, 640)
ALL_LOGITS_PROMPT = 3
# Steps of this size give the long prompts to every attention kernel: chunks of more than 64 queries,
# of few queries, and decodes, in blocks of 16.
GENERATION = {"block_size": 16, "max_num_batched_tokens": 256, "max_num_seqs": 4}
MODULES = (modeling_llama, modeling_mistral, modeling_qwen3, modeling_rope_utils)

# Family, query heads, key heads, head size, window.
MODELS = {
    "attention-d64-g1": ("llama", 4, 4, 64, None),
    "attention-d64-g4-window": ("mistral", 8, 2, 64, 100),
    "attention-d128-g1": ("llama", 2, 2, 128, None),
    "attention-d128-g4": ("llama", 8, 2, 128, None),
    "attention-d128-g7": ("qwen3", 7, 1, 128, None),
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
def double_precision():
    cast = torch.Tensor.float
    try:
        for module in MODULES:
            module.torch = DoubleTorch()
        torch.Tensor.float = torch.Tensor.double
        yield
    finally:
        torch.Tensor.float = cast
        for module in MODULES:
            module.torch = torch


def config_of(name):
    family, heads, kv_heads, head_dim, window = MODELS[name]
    facts = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
             "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
             "vocab_size": VOCAB, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
             "rope_theta": 10000.0, "tie_word_embeddings": False, "bos_token_id": 1,
             "eos_token_id": VOCAB - 1, "torch_dtype": "bfloat16"}
    if family == "mistral":
        facts["sliding_window"] = window
    return AutoConfig.for_model(family, **facts)


def draw_weights(model, seed):
    """Scores of attention have a standard deviation of about 2, so that few keys matter to a query;
    logits one of about 3. Norm weights differ from 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in sorted(model.named_parameters()):
        if tensor.dim() == 1:
            value = 1 + 0.2 * torch.randn(tensor.shape, generator=generator)
        else:
            fan_in = tensor.shape[1] if "embed" not in name else 1
            gain = 1.4 if "q_proj" in name or "k_proj" in name else 3 if "lm_head" in name else 1
            value = torch.randn(tensor.shape, generator=generator) * gain / math.sqrt(fan_in)
        tensor.data.copy_(value)


def load(folder, dtype, change=None):
    config = AutoConfig.from_pretrained(folder, attn_implementation="eager")
    if change:
        setattr(config, *change)
    model = AutoModelForCausalLM.from_config(config, torch_dtype=dtype)
    state = load_file(folder / "model.safetensors")
    model.load_state_dict({name: value.to(dtype) for name, value in state.items()}, strict=True)
    return model.eval()


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


def keys_of_other_heads(model):
    """The mistake that query heads read the key heads of others."""
    for layer in model.model.layers:
        for linear in (layer.self_attn.k_proj, layer.self_attn.v_proj):
            linear.weight.data = linear.weight.data.roll(layer.self_attn.head_dim, 0)
    return model


def mistakes(folder, prompts, expected):
    config = AutoConfig.from_pretrained(folder)
    found = {"rope_theta 20000": load(folder, torch.float64, ("rope_theta", 20000.0))}
    if config.num_key_value_heads > 1:
        found["keys and values of another head"] = keys_of_other_heads(load(folder, torch.float64))
    window = getattr(config, "sliding_window", None)
    if window:
        found["window ignored"] = load(folder, torch.float64, ("sliding_window", None))
        found["window smaller by one"] = load(folder, torch.float64, ("sliding_window", window - 1))
    return {name: distances(model, prompts[-2:], expected[-2:])["rel_l2"]
            for name, model in found.items()}


def make(name, folder, seed):
    folder.mkdir(parents=True, exist_ok=True)
    config = config_of(name)
    model = AutoModelForCausalLM.from_config(config)
    draw_weights(model, seed)
    state = {key: value.to(torch.bfloat16).contiguous() for key, value in model.state_dict().items()}
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    generator = torch.Generator().manual_seed(seed + 1)
    prompts = [torch.randint(0, VOCAB - 1, (length,), generator=generator).tolist()
               for length in PROMPT_LENGTHS]
    with double_precision():
        exact = load(folder, torch.float64)
        with OnlyDouble():
            expected = [logits_of(exact, prompt) for prompt in prompts]
            generated = [greedy(exact, prompt) for prompt in prompts]
        wrong = mistakes(folder, prompts, expected)
    measured = {"fp32_compute": distances(load(folder, torch.float32), prompts, expected),
                "bf16_weights_and_compute": distances(load(folder, torch.bfloat16), prompts,
                                                      expected)}
    write(name, folder, prompts, expected, generated, measured, wrong, sum(
        value.numel() for value in state.values()))


def write(name, folder, prompts, expected, generated, measured, wrong, parameters):
    single, half = measured["fp32_compute"], measured["bf16_weights_and_compute"]
    absolute = {"fp32": max(40 * single["max_abs"], 1e-4), "bf16": max(2 * half["max_abs"], 5e-2)}
    relative = {"fp32": max(20 * single["rel_l2"], 1e-5), "bf16": max(2 * half["rel_l2"], 2e-2)}
    facts = {"about": "heads of a size that GPU attention kernels take, prompts of many blocks",
             "model_type": MODELS[name][0], "name": name, "parameters": parameters,
             "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
             "generation": GENERATION, "logits_all_prompt": ALL_LOGITS_PROMPT,
             "new_tokens": NEW_TOKENS, "prompt_lengths": PROMPT_LENGTHS, "measured": measured,
             "mistakes_rel_l2": wrong,
             "tolerance": {dtype: {"rel_l2": relative[dtype], "margin": absolute[dtype],
                                   "logprob": absolute[dtype]} for dtype in relative}}
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
    bound = min(wrong.values())
    print(f"{name}: fp32 {single['rel_l2']:.1e}, bf16 {half['rel_l2']:.1e}, least mistake "
          f"{bound:.1e}, {sum(f.stat().st_size for f in folder.iterdir()) >> 10} KiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for number, name in enumerate(MODELS):
        if name in arguments.names:
            make(name, arguments.out / name, 20270 + 2 * number)


if __name__ == "__main__":
    main()
