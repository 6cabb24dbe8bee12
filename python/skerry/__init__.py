"""Skerry's Python side: `skerry.vllm` is the plugin for vLLM, `skerry.client` sends requests by weight version."""

__version__ = "0.1.0"
