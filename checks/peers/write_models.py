#!/usr/bin/env python3
"""Writes one random-weight model twice: as config.json + model.safetensors, and as GGUF files.

Usage: write_models.py MODEL OUT FORMAT...     MODEL: 100m or 1b; FORMAT: f32, bf16, q8_0

Weights are N(0, 0.02) from a fixed seed, rounded to bf16; gains are 1. All files contain the same
model (q8_0 is rounded once more). Existing files are kept.
"""
import dataclasses
import json
import pathlib
import sys

import gguf
import numpy as np


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocab: int
    context: int = 4096
    rope_theta: float = 10000.0
    epsilon: float = 1e-5

    @property
    def head_dim(self):
        return self.hidden // self.heads


SHAPES = {
    "100m": Shape(layers=12, hidden=768, feed_forward=2048, heads=12, kv_heads=4, vocab=32000),
    # The shape of Llama-3.2-1B.
    "1b": Shape(layers=16, hidden=2048, feed_forward=8192, heads=32, kv_heads=8, vocab=128256,
                rope_theta=500000.0),
}
QUANTIZATIONS = {
    "f32": gguf.GGMLQuantizationType.F32,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}


def bf16_bits(values):
    """fp32 to the bits of bf16, rounded to nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def fp32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def matrices(shape):
    """(name in safetensors, name in GGUF, rows, columns, heads to permute) of every matrix."""
    width, kv_width = shape.hidden, shape.kv_heads * shape.head_dim
    yield "model.embed_tokens.weight", "token_embd.weight", shape.vocab, width, 0
    for i in range(shape.layers):
        layer, block = f"model.layers.{i}.", f"blk.{i}."
        yield layer + "self_attn.q_proj.weight", block + "attn_q.weight", width, width, shape.heads
        yield (layer + "self_attn.k_proj.weight", block + "attn_k.weight", kv_width, width,
               shape.kv_heads)
        yield layer + "self_attn.v_proj.weight", block + "attn_v.weight", kv_width, width, 0
        yield layer + "self_attn.o_proj.weight", block + "attn_output.weight", width, width, 0
        yield layer + "mlp.gate_proj.weight", block + "ffn_gate.weight", shape.feed_forward, width, 0
        yield layer + "mlp.up_proj.weight", block + "ffn_up.weight", shape.feed_forward, width, 0
        yield layer + "mlp.down_proj.weight", block + "ffn_down.weight", width, shape.feed_forward, 0


def norms(shape):
    for i in range(shape.layers):
        yield f"model.layers.{i}.input_layernorm.weight", f"blk.{i}.attn_norm.weight"
        yield f"model.layers.{i}.post_attention_layernorm.weight", f"blk.{i}.ffn_norm.weight"
    yield "model.norm.weight", "output_norm.weight"


def drawn(index, rows, columns):
    random = np.random.Generator(np.random.Philox(key=[20, index]))
    return bf16_bits(random.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02))


def permuted(bits, heads):
    """GGUF has the two halves of a head's rotary pairs interleaved."""
    rows, columns = bits.shape
    return bits.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_config(shape, folder):
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "num_hidden_layers": shape.layers, "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim,
        "vocab_size": shape.vocab, "max_position_embeddings": shape.context,
        "rope_theta": shape.rope_theta, "rms_norm_eps": shape.epsilon,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16"}, indent=2) + "\n")


def write_safetensors(shape, file):
    header, offset = {}, 0
    for name, _, rows, columns, _ in matrices(shape):
        size = 2 * rows * columns
        header[name] = {"dtype": "BF16", "shape": [rows, columns],
                        "data_offsets": [offset, offset + size]}
        offset += size
    gains = bf16_bits(np.ones(shape.hidden, dtype=np.float32)).tobytes()
    for name, _ in norms(shape):
        header[name] = {"dtype": "BF16", "shape": [shape.hidden],
                        "data_offsets": [offset, offset + len(gains)]}
        offset += len(gains)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = file.with_suffix(".partial")
    with partial.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for index, (_, _, rows, columns, _) in enumerate(matrices(shape)):
            out.write(drawn(index, rows, columns).tobytes())
        for _ in norms(shape):
            out.write(gains)
    partial.rename(file)


def write_gguf(shape, quantization, file):
    partial = file.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "llama")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_vocab_size(shape.vocab)
    writer.add_tokenizer_model("none")
    for index, (_, name, rows, columns, heads) in enumerate(matrices(shape)):
        bits = drawn(index, rows, columns)
        if heads:
            bits = permuted(bits, heads)
        data = gguf.quants.quantize(fp32(bits), quantization)
        writer.add_tensor(name, data, raw_dtype=quantization)
    for _, name in norms(shape):
        writer.add_tensor(name, np.ones(shape.hidden, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(file)


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in SHAPES or not set(arguments[2:]) <= set(
            QUANTIZATIONS):
        sys.exit(__doc__)
    shape, folder = SHAPES[arguments[0]], pathlib.Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_config(shape, folder)
    if not (folder / "model.safetensors").exists():
        write_safetensors(shape, folder / "model.safetensors")
    for name in arguments[2:]:
        file = folder / f"{name}.gguf"
        if not file.exists():
            write_gguf(shape, QUANTIZATIONS[name], file)


if __name__ == "__main__":
    main(sys.argv[1:])
