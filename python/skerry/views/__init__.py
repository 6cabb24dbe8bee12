"""Served views: what engines load, made of a trainer's weights. docs/views.md is the manual.

    view = View("fp8-block")
    view.write("ckpt/base", "ckpt/base-fp8")                     # a whole checkpoint
    view.quantize("model.layers.0.mlp.up_proj.weight", weight)   # one tensor

The quantisers are those of transformers, compressed-tensors and bitsandbytes (pip install 'skerry[views]'); each is
imported when a view first needs it.
"""

from skerry.views.form import Form
from skerry.views.names import SKIP
from skerry.views.view import NAMES, SCALES, Quantized, View
from skerry.views.writer import Written

__all__ = ["NAMES", "SCALES", "SKIP", "Form", "Quantized", "View", "Written"]
