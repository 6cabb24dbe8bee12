"""How the trainer's tensors are found in a module and read, without a board: into a capture that records."""

import threading
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from recording_capture import RecordingCapture  # noqa: E402
from skerry.errors import Invalid, Unsupported  # noqa: E402
from skerry.names import Names, NamesDiffer  # noqa: E402
from skerry.torch.reading import TensorReader, dtype_name, identity  # noqa: E402
from skerry.torch.staging import Ring  # noqa: E402
from skerry.weights import Weights, take  # noqa: E402


class Tied(torch.nn.Module):
    """An embedding that is the head too."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.embed = torch.nn.Embedding(4, 3, dtype=dtype)
        self.head = torch.nn.Linear(3, 4, bias=False, dtype=dtype)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("rotary", torch.ones(2), persistent=False)


TIED = {"embed.weight": ("BF16", (4, 3)), "scale": ("F32", (1,))}


def taken(weights, checkpoint, names=None):
    capture = RecordingCapture(checkpoint)
    take(capture, Weights(weights), names or Names())
    return capture


def bits(tensor):
    tensor = tensor.detach().contiguous().reshape(-1)
    return tensor.view(
        {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}[tensor.element_size()]
    ).tolist()


def test_a_module_gives_its_tied_tensor_once_and_the_buffers_that_are_saved():
    model = Tied()
    capture = taken(model, TIED)
    assert capture.values("embed.weight") == model.embed.weight.detach().reshape(-1).tolist()
    assert sorted(name for name, *_ in capture.calls) == ["embed.weight", "scale"]


def test_a_checkpoint_with_both_tied_names_gets_both_from_a_module():
    both = TIED | {"head.weight": ("BF16", (4, 3))}
    capture = taken(Tied(), both)
    assert capture.values("head.weight") == capture.values("embed.weight")
    with pytest.raises(NamesDiffer, match=r"1 not given: head.weight \(parameters that are tied are listed once"):
        taken([*Tied().named_parameters(), ("scale", torch.ones(1))], both)


@pytest.mark.parametrize("order", [["embed.weight", "head.weight"], ["head.weight", "embed.weight"]])
def test_tied_arrays_of_a_state_dict_are_known_by_their_storage(order):
    model = Tied()
    given = {name: model.state_dict()[name] for name in [*order, "scale"]}
    assert taken(given, TIED).taken_names == set(TIED)
    given["head.weight"] = given["head.weight"].clone()
    with pytest.raises(NamesDiffer, match="1 not in the checkpoint: head.weight"):
        taken(given, TIED)


def test_memory_that_was_freed_and_used_again_is_not_taken_for_a_tied_tensor():
    def gathered():
        for name in ("embed.weight", "other.weight"):
            yield name, torch.ones(4, 3)  # freed before the next is made, which mostly gets its place

    with pytest.raises(NamesDiffer, match="1 not in the checkpoint: other.weight"):
        taken(gathered(), {"embed.weight": ("F32", (4, 3))})


def test_views_of_one_storage_are_not_the_same_memory():
    whole = torch.zeros(4, 4)
    assert identity(whole) == identity(whole.detach()) == identity(whole.view(4, 4))
    assert (
        len({identity(whole), identity(whole[:2]), identity(whole[2:]), identity(whole.t()), identity(whole.view(16))})
        == 5
    )


DTYPES = {
    torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.float64: "F64", torch.int64: "I64",
    torch.int8: "I8", torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
    torch.float8_e8m0fnu: "F8_E8M0", torch.uint16: "U16", torch.complex64: "C64",
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_arrives_by_its_bits(dtype):
    tensor = torch.arange(0, 48, dtype=torch.uint8).view(dtype if dtype is not torch.bool else torch.uint8)
    tensor = tensor > 3 if dtype is torch.bool else tensor
    assert dtype_name(tensor) == DTYPES[dtype]
    found = []
    TensorReader().read("a", tensor, lambda first, array: found.append((first, array.copy())))
    [(first, array)] = found
    assert first == 0
    if dtype is torch.float32:
        assert array.dtype == np.float32 and array.view(np.uint32).tolist() == bits(tensor)
    else:
        assert array.dtype.kind == "u" and array.tolist() == bits(tensor)


def test_signalling_nans_and_negative_zeros_of_bf16_arrive_by_their_bits():
    tensor = torch.tensor([0x7F81, 0x8000, 0xFFC1], dtype=torch.uint16).view(torch.bfloat16)
    assert taken({"a": tensor}, {"a": ("BF16", (3,))}).values("a") == [0x7F81, 0x8000, 0xFFC1]


def test_a_cpu_tensor_is_read_where_it_is():
    tensor = torch.nn.Parameter(torch.ones(1000))
    addresses = []
    TensorReader().read("a", tensor, lambda _, array: addresses.append(array.__array_interface__["data"][0]))
    assert addresses == [tensor.data_ptr()]


FORMS = {
    "contiguous": lambda: torch.randn(6, 5, 4),
    "transposed": lambda: torch.randn(5, 6).t(),
    "every other column": lambda: torch.randn(6, 10)[:, ::2],
    "some rows": lambda: torch.randn(9, 5)[2:7],
    "expanded": lambda: torch.randn(1, 5).expand(6, 5),
    "permuted": lambda: torch.randn(3, 4, 5).permute(2, 0, 1),
    "one row longer than a piece": lambda: torch.randn(50, 2).t(),
    "conjugated": lambda: torch.randn(4, dtype=torch.complex64).conj(),
    "scalar": lambda: torch.tensor(7.0),
    "empty": lambda: torch.zeros(0, 5),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("staged", [False, True])
def test_tensors_of_any_strides_arrive_whole_and_piece_by_piece(form, staged, monkeypatch):
    monkeypatch.setattr("skerry.torch.reading._PIECE_BYTES", 64)
    tensor = FORMS[form]()
    device = PlainMemory()
    reader = TensorReader((lambda _: Ring(device, slots=2, slot_bytes=64)) if staged else (lambda _: None))
    found = {}

    def sink(first, array):
        for offset, value in enumerate(array.view(f"u{array.itemsize}").tolist()):
            assert first + offset not in found
            found[first + offset] = value

    reader.read("a", tensor, sink, ahead=True)
    reader.finish()
    assert [found[index] for index in range(tensor.numel())] == bits(tensor.resolve_conj())
    assert len(found) == tensor.numel()
    assert all(size <= 64 for size in device.copied)


class PlainMemory:
    """A device whose copies take a while: each is made by a thread of its own, when it is told to."""

    def __init__(self, delay=0.0):
        self.delay, self.buffers, self.copied, self.running, self.most_running = delay, 0, [], 0, 0

    def buffer(self, size):
        self.buffers += 1
        return torch.full((size,), 0xAA, dtype=torch.uint8)

    def copy(self, into, source):
        self.copied.append(source.nbytes)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        return _Copy(self, into, source)


class _Copy:
    def __init__(self, device, into, source):
        self._device, self._into, self._source = device, into, source
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        time.sleep(self._device.delay)
        self._into.copy_(self._source)

    def wait(self):
        self._thread.join()
        self._device.running -= 1


def test_F7_a_ring_reads_nothing_before_its_copy_is_done_and_copies_ahead():
    device = PlainMemory(delay=0.005)
    ring = Ring(device, slots=3, slot_bytes=400)
    read = []
    for number in range(10):
        ring.push(torch.full((100,), float(number)), lambda host: read.append(host.tolist()))
    ring.drain()
    assert read == [[float(number)] * 100 for number in range(10)]
    assert device.buffers == 3 and device.most_running == 3 and device.running == 0


def test_a_ring_keeps_what_it_copies_from_until_it_is_copied():
    import weakref

    ring = Ring(PlainMemory(delay=0.02), slots=2, slot_bytes=400)
    source = torch.ones(100)
    alive = weakref.ref(source)
    ring.push(source, lambda host: None)
    del source
    assert alive() is not None
    ring.drain()
    assert alive() is None


def test_an_error_while_reading_leaves_no_copy_under_way():
    device = PlainMemory(delay=0.005)
    reader = TensorReader(lambda _: Ring(device, slots=3, slot_bytes=64))

    def failing(first, array):
        raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        reader.read("a", torch.ones(1000), failing)
    assert device.running > 0
    reader.close()
    assert device.running == 0


@pytest.mark.parametrize(
    ("tensor", "says"),
    [
        (lambda: torch.ones(2, device="meta"), "meta device"),
        (lambda: torch.ones(2, 2).to_sparse(), "layout"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "no plain values"),
    ],
)
def test_what_has_no_plain_values_is_refused_by_name(tensor, says):
    with pytest.raises(Unsupported, match=f"layers.0 .*{says}"):
        TensorReader().read("layers.0", tensor(), lambda first, array: None)


def test_a_lone_tensor_is_no_weights():
    with pytest.raises(Invalid, match="one tensor without a name"):
        taken(torch.ones(2, 2), {"a": ("F32", (2, 2))})


def test_a_module_behind_compile_and_parallel_wrappers_keeps_its_names():
    class Wrapper(torch.nn.Module):  # what DistributedDataParallel does to names
        def __init__(self, module):
            super().__init__()
            self.module = module

    model = Tied()
    compiled = torch.compile(model, backend="eager")
    assert taken(Wrapper(compiled), TIED).taken_names == set(TIED)


class CollectiveOfOne:
    """A gloo group of this process alone, whose collectives are late."""

    def __init__(self, monkeypatch, tmp_path):
        import torch.distributed as dist

        self.waited = 0
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
        from torch.distributed import _functional_collectives as functional

        real = functional.wait_tensor

        def late(tensor):
            self.waited += 1
            return real(tensor).fill_(5.0)  # what comes late

        monkeypatch.setattr(functional, "wait_tensor", late)
        self.gathered = lambda: functional.all_gather_tensor(torch.ones(4), 0, dist.group.WORLD)


@pytest.fixture
def collective(monkeypatch, tmp_path):
    yield CollectiveOfOne(monkeypatch, tmp_path)
    torch.distributed.destroy_process_group()


def test_F7_a_tensor_that_a_collective_is_still_to_fill_is_waited_for(collective):
    tensor = collective.gathered()
    assert type(tensor).__name__ == "AsyncCollectiveTensor"
    assert taken({"a": tensor}, {"a": ("F32", (4,))}).values("a") == [5.0] * 4
    assert collective.waited == 1


def test_a_replicated_dtensor_is_read_and_one_whose_sum_is_still_to_be_made_is_refused(collective):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    mesh = init_device_mesh("cpu", (1,))
    for placement in (Replicate(), Shard(0)):  # one rank holds all of it
        whole = DTensor.from_local(torch.ones(4), mesh, [placement])
        assert taken({"a": whole}, {"a": ("F32", (4,))}).values("a") == [1.0] * 4
    with pytest.raises(Unsupported, match="a is a DTensor with a Partial placement"):
        taken({"a": DTensor.from_local(torch.ones(4), mesh, [Partial()])}, {"a": ("F32", (4,))})
    mesh.size = lambda *_: 2
    half = DTensor.from_local(torch.ones(2), mesh, [Shard(0)], shape=torch.Size([4]), stride=(1,))
    with pytest.raises(Unsupported, match=r"this rank holds \[2\] of \[4\]: give the publisher group="):
        taken({"a": half}, {"a": ("F32", (4,))})
