"""Writes one random model three times: in bf16, and in 4 bits as GPTQ and as AWQ store it.

The 4-bit files hold the same numbers: each group of 128 inputs of an output has the scale and the
zero point that its least and its largest weight ask for, and weights are rounded to nearest. GPTQ
and AWQ choose them by activations of a trained model, which random weights do not have.
"""
import dataclasses
import json

import numpy as np

GROUP = 128
# Which neighbour the n-th four bits of a number hold, from the lowest on.
NIBBLES = {"gptq": (0, 1, 2, 3, 4, 5, 6, 7), "awq": (0, 2, 4, 6, 1, 3, 5, 7)}
QUANTIZATION = {
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False,
             "sym": False, "checkpoint_format": "gptq"},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm",
            "zero_point": True},
}


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int = 8
    hidden: int = 512
    feed_forward: int = 1408
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 64
    vocab: int = 4096


SHAPE = Shape()
# Of the logits: next tokens are then about as uncertain as a language model's (perplexity 50).
LOGIT_DEVIATION = 3.0


def bf16_bits(values):
    """fp32 to the bits of bf16, rounded to nearest even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def projections(shape):
    """(name without ".weight", outputs, inputs) of every matrix of a layer."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for i in range(shape.layers):
        layer = f"model.layers.{i}."
        yield layer + "self_attn.q_proj", queries, shape.hidden
        yield layer + "self_attn.k_proj", keys, shape.hidden
        yield layer + "self_attn.v_proj", keys, shape.hidden
        yield layer + "self_attn.o_proj", shape.hidden, queries
        yield layer + "mlp.gate_proj", shape.feed_forward, shape.hidden
        yield layer + "mlp.up_proj", shape.feed_forward, shape.hidden
        yield layer + "mlp.down_proj", shape.hidden, shape.feed_forward


def drawn(index, rows, columns, deviation):
    """Normal weights, exact in bf16."""
    random = np.random.Generator(np.random.Philox(key=[14, index]))
    values = random.standard_normal((rows, columns), dtype=np.float32) * np.float32(deviation)
    return (bf16_bits(values).astype(np.uint32) << 16).view(np.float32)


def common_tensors(shape):
    """What all three files hold alike."""
    yield "model.embed_tokens.weight", drawn(0, shape.vocab, shape.hidden, 1)
    yield "lm_head.weight", drawn(1, shape.vocab, shape.hidden,
                                  LOGIT_DEVIATION / np.sqrt(shape.hidden))
    gains = np.ones(shape.hidden, dtype=np.float32)
    for i in range(shape.layers):
        yield f"model.layers.{i}.input_layernorm.weight", gains
        yield f"model.layers.{i}.post_attention_layernorm.weight", gains
    yield "model.norm.weight", gains


def rounded(weights):
    """q [outputs, inputs], zero and scale [outputs, groups]: w = (q - zero) * scale."""
    outputs, inputs = weights.shape
    groups = weights.reshape(outputs, inputs // GROUP, GROUP)
    least = np.minimum(groups.min(axis=2), 0)
    scale = ((np.maximum(groups.max(axis=2), 0) - least) / 15).astype(np.float16)
    wide = scale.astype(np.float32)
    # GPTQ's files hold zero - 1.
    zero = np.clip(np.rint(-least / wide), 1, 15)
    q = np.clip(np.rint(groups / wide[:, :, None]) + zero[:, :, None], 0, 15)
    return q.reshape(outputs, inputs).astype(np.uint32), zero.astype(np.uint32), scale


def packed(values, order):
    """Eight neighbours of the last axis in a number."""
    eights = values.reshape(*values.shape[:-1], -1, 8)
    numbers = np.zeros(eights.shape[:-1], dtype=np.uint32)
    for nibble, neighbour in enumerate(order):
        numbers |= eights[..., neighbour] << np.uint32(4 * nibble)
    return numbers


def four_bit_tensors(kind, name, weights):
    q, zero, scale = rounded(weights)
    if kind == "gptq":  # eight inputs a number
        yield name + ".qweight", np.ascontiguousarray(packed(q, NIBBLES[kind]).T)
        yield name + ".qzeros", packed(zero.T - 1, NIBBLES[kind])
    else:  # eight outputs
        yield name + ".qweight", packed(q.T, NIBBLES[kind])
        yield name + ".qzeros", packed(zero.T, NIBBLES[kind])
    yield name + ".scales", np.ascontiguousarray(scale.T)


def tensors_of(shape, kind):
    """(name, safetensors type, array) of a file; kind: bf16, gptq, awq."""
    for name, values in common_tensors(shape):
        yield name, "BF16", bf16_bits(values)
    for index, (name, outputs, inputs) in enumerate(projections(shape)):
        weights = drawn(2 + index, outputs, inputs, 1 / np.sqrt(inputs))
        if kind == "bf16":
            yield name + ".weight", "BF16", bf16_bits(weights)
            continue
        for part, values in four_bit_tensors(kind, name, weights):
            yield part, "F16" if values.dtype == np.float16 else "I32", values


def write_config(shape, kind, folder):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
              "num_hidden_layers": shape.layers, "hidden_size": shape.hidden,
              "intermediate_size": shape.feed_forward, "num_attention_heads": shape.heads,
              "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim,
              "vocab_size": shape.vocab, "max_position_embeddings": 1024, "rope_theta": 10000.0,
              "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    if kind in QUANTIZATION:
        config["quantization_config"] = QUANTIZATION[kind]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def write_model(kind, folder, shape=SHAPE):
    """Writes config.json and model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    write_config(shape, kind, folder)
    header, offset, arrays = {}, 0, []
    for name, dtype, values in tensors_of(shape, kind):
        header[name] = {"dtype": dtype, "shape": list(values.shape),
                        "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
        arrays.append(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for values in arrays:
            out.write(values.tobytes())
