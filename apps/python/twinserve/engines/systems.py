"""Originals whose schedulers are installed without a GPU, and what of each is needed."""
from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class System:
    """An original on PyPI: what is installed of it, and what is left out."""

    name: str
    package: str
    modules: list[str]  # whose import shows that all is there
    pinned: list[str] = dataclasses.field(default_factory=list)  # at the version that it asks for
    torch: bool = False  # PyTorch is installed, too
    needs: list[str] = dataclasses.field(default_factory=list)
    absent: list[str] = dataclasses.field(default_factory=list)  # replaced, if not installed
    decides: list[str] = dataclasses.field(default_factory=list)  # parts that are never replaced
    extensions: str = ""  # extension modules of its wheel


VLLM = System(
    "vllm", "vllm",
    ["vllm.config", "vllm.sampling_params", "vllm.utils.hashing", "vllm.v1.core.kv_cache_utils",
     "vllm.v1.core.sched.async_scheduler", "vllm.v1.core.sched.scheduler",
     "vllm.v1.kv_cache_interface", "vllm.v1.outputs", "vllm.v1.request"],
    absent=["PIL", "aiohttp", "cbor2", "cpuinfo", "huggingface_hub", "llguidance", "openai",
            "openai_harmony", "prometheus_client", "psutil", "pybase64", "requests", "safetensors",
            "torch", "transformers", "urllib3", "xgrammar", "zmq"],
    decides=["config", "sampling_params", "utils", "v1"])

# Its allocators and its tree work on tensors, so PyTorch is installed.
SGLANG = System(
    "sglang", "sglang",
    ["sglang.srt.managers.scheduler"],
    pinned=["transformers"], torch=True,
    needs=["dill==0.4.1", "orjson==3.13.0", "psutil==7.2.2", "pyzmq==27.3.0",
           "setproctitle==1.3.8", "xxhash==4.1.0"],
    absent=["IPython", "PIL", "aiohttp", "compressed_tensors", "einops", "fastapi", "gguf",
            "openai", "partial_json_parser", "pybase64", "requests", "sentencepiece", "starlette",
            "torchvision", "triton", "tvm_ffi", "uvicorn"],
    extensions=r"kernels/jit/|rust_tree_core/.*\.so$")
