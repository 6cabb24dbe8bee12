"""Skerry's part inside an inference engine. `skerry.vllm` is the plugin for vLLM."""

__version__ = "0.1.0"
