"""Boxes and packed matrices against torch, and how a layout is told. Needs torch, not vLLM."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from skerry import _core  # noqa: E402
from skerry.vllm import packing  # noqa: E402
from skerry.vllm.checkpoint import Checkpoint, raw, read_positions  # noqa: E402
from skerry.vllm.layout import holds_checkpoint, packed_linear  # noqa: E402
from skerry.vllm.plan import Box, Plan, Target, make_dimensions  # noqa: E402


def wrong_columns(linear, target, checkpoint, columns):
    return packing.wrong_columns(linear, packing.make_probe(target, checkpoint, columns), checkpoint)


class Tensors:
    """A checkpoint in memory."""

    def __init__(self, **tensors):
        self.tensors = tensors

    def tensor(self, name):
        return self.tensors[name]


def box(name, source, destination, whole):
    dims = make_dimensions(source.shape, source.stride(), destination.stride())
    return Box(name, whole.numel(), dims, source.storage_offset(), destination.storage_offset())


def fused(q, k):
    """A loader's work: q and the first half of k's columns, transposed, in one matrix."""
    full = torch.zeros(12, 8, dtype=torch.bfloat16)
    target = Target("m", "weight", (12, 8), torch.bfloat16)
    target.boxes = [box("q", q, full[:8], q), box("k", k[:, :4].t(), full[8:], k)]
    full[:8].copy_(q)
    full[8:].copy_(k[:, :4].t())
    target.names = {"q", "k"}
    return target, full


@pytest.fixture
def tensors():
    torch.manual_seed(3)
    return torch.randn(8, 8).bfloat16(), torch.randn(8, 8).bfloat16()


def test_boxes_build_what_the_loader_built(tensors):
    q, k = tensors
    target, full = fused(q, k)
    assert target.complete()
    assert torch.equal(packing.build(target, Tensors(q=q, k=k)), full)


def test_contiguous_dimensions_merge_and_repeated_elements_are_refused():
    assert make_dimensions((8, 8), (8, 1), (8, 1)) == ((64, 1, 1),)
    assert make_dimensions((8, 4), (8, 1), (4, 1)) == ((8, 8, 4), (4, 1, 1))
    assert make_dimensions((4, 8), (1, 4), (8, 1)) == ((8, 4, 1), (4, 1, 8))
    assert make_dimensions((1,), (1,), (1,)) == ((1, 1, 1),)
    assert make_dimensions((3, 4), (0, 1), (4, 1)) is None
    assert make_dimensions((4, 4), (2, 1), (4, 1)) is None


def test_changed_elements_arrive_where_the_loader_would_put_them(tensors):
    q, k = tensors
    target, full = fused(q, k)
    new = k.clone()
    at = torch.tensor([0, 3, 5, 17, 63], dtype=torch.uint32)
    new.view(-1)[at.long()] += 1
    positions, values = torch.empty(5, dtype=torch.uint32), torch.empty(10, dtype=torch.uint8)
    b = target.boxes[1]
    count = _core.select(at, raw(new), 2, b.dimensions, b.source_offset, b.destination_offset, positions, values)
    assert count == 3  # 5 and 63 belong to another worker
    _core.scatter(raw(full), 2, positions[:count], values[: 2 * count])
    assert torch.equal(full, fused(q, new)[1])


def test_a_parameter_in_another_order_is_not_taken_for_the_loaders(tensors):
    q, k = tensors
    target, full = fused(q, k)
    checkpoint = Tensors(q=q, k=k)
    assert holds_checkpoint(target, full, checkpoint)
    assert not holds_checkpoint(target, full.flip(0).contiguous(), checkpoint)
    assert not holds_checkpoint(target, full.t(), checkpoint)
    assert not holds_checkpoint(target, torch.empty(0), checkpoint)
    assert holds_checkpoint(target, full.float(), checkpoint)  # served in a wider type


def test_columns_are_read_back_through_the_product(tensors):
    q, k = tensors
    target, full = fused(q, k)
    module = torch.nn.Module()
    packed = full.clone()
    module.cpu_linear = lambda x, weight, bias: torch.nn.functional.linear(x, packed)
    assert packed_linear(module)
    columns = torch.arange(8)
    assert wrong_columns(module.cpu_linear, target, Tensors(q=q, k=k), columns) == 0
    packed[9, 2] += 1
    packed[0, 5] += 1
    assert wrong_columns(module.cpu_linear, target, Tensors(q=q, k=k), columns) == 2


def test_rows_with_infinite_elements_can_not_be_read_back_and_are_left_out(tensors):
    q, k = tensors
    q[2, 3] = float("inf")
    target, full = fused(q, k)
    packed = full.clone()
    linear = lambda x, weight, bias: torch.nn.functional.linear(x, packed)  # noqa: E731
    assert wrong_columns(linear, target, Tensors(q=q, k=k), torch.arange(8)) == 0
    packed[1, 1] += 1
    assert wrong_columns(linear, target, Tensors(q=q, k=k), torch.arange(8)) == 1


def test_a_plain_product_is_not_packed():
    module = torch.nn.Module()
    assert not packed_linear(module)
    module.cpu_linear = torch.nn.functional.linear
    assert not packed_linear(module)
    module.cpu_linear = lambda x, weight, bias: torch.nn.functional.linear(x, weight, bias)
    assert not packed_linear(module)


def test_exchanged_copies_keep_the_handle_that_compiled_graphs_know():
    class Handler:
        def __init__(self, value):
            self.handler_tensor = torch.tensor(value)

    def closure(handler):
        return lambda x, weight, bias: handler

    module, old, new = torch.nn.Module(), Handler(11), Handler(22)
    module.cpu_linear = closure(old)
    handle = old.handler_tensor
    assert packing.identity(module.cpu_linear) == 11
    retired = packing.exchange_linear(module, closure(new))
    assert packing.identity(module.cpu_linear) == 22
    assert module.cpu_linear(0, 0, 0) is old and old.handler_tensor is handle and handle.item() == 22
    assert retired(0, 0, 0) is new and new.handler_tensor.item() == 11


def test_the_closure_holds_all_tensors_of_every_module_that_is_touched():
    def target(module, *names):
        return Target(module, "weight", (1,), torch.bfloat16, names=set(names))

    targets = [target("qkv", "q", "k", "v"), target("o", "o")]
    targets += [target("gate_up", "gate", "up"), target("both", "up", "x")]
    by_name = {}
    for t in targets:
        for name in t.names:
            by_name.setdefault(name, []).append(t)
    plan = Plan({(t.module, "weight"): t for t in targets}, set(by_name), by_name)
    assert plan.closure(["k"]) == {"q", "k", "v"}
    assert plan.closure(["gate", "o"]) == {"gate", "up", "x", "o"}


def test_positions_of_another_type_are_refused(tmp_path):
    from safetensors.numpy import save_file

    path = str(tmp_path / "changes.positions")
    save_file({"w": np.array([1, 2], np.uint32)}, path)
    assert read_positions(path)["w"].tolist() == [1, 2]
    save_file({"w": np.array([1, 2], np.int64)}, path)
    with pytest.raises(ValueError, match="'w'.*int64"):
        read_positions(path)


def test_a_folder_without_an_index_is_read_like_vllm_reads_it(tmp_path):
    from safetensors.numpy import save_file

    with pytest.raises(ValueError, match="no safetensors file"):
        Checkpoint(str(tmp_path))
    save_file({"a": np.zeros(2, np.float32)}, str(tmp_path / "one.safetensors"))
    save_file({"b": np.ones(3, np.float32)}, str(tmp_path / "two.safetensors"))
    checkpoint = Checkpoint(str(tmp_path))
    assert {name: t.numel() for name, t in checkpoint.items()} == {"a": 2, "b": 3}
