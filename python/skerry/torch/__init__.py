"""The trainer's tensors: what a module holds, and how a tensor is read. Needs torch."""

from skerry.torch.module import module_tensors
from skerry.torch.reading import TensorReader, dtype_name, host_array, identity, settled

__all__ = ["TensorReader", "dtype_name", "host_array", "identity", "module_tensors", "settled"]
