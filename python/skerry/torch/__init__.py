"""The trainer's tensors: what a module holds, and how a tensor is read. Needs torch."""

from skerry.torch.module import module_tensors
from skerry.torch.reading import TensorReader, dtype_name, identity

__all__ = ["TensorReader", "dtype_name", "identity", "module_tensors"]
