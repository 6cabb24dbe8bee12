"""A run in several views at once: what islands of each view get is what the view's own library makes of the weights."""

import json
from collections import Counter

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from published import digest_of, pulled, same  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from skerry import Board, Publisher  # noqa: E402
from skerry.errors import Invalid  # noqa: E402
from skerry.views import View  # noqa: E402

VERSIONS = 10
NAMES = ("fp8-block", "mxfp4", "nf4")


def llama():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=128, intermediate_size=320, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=97, max_position_embeddings=64, tie_word_embeddings=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)  # of F32: these are the masters


def save_base(model, folder):
    """What training begins from: the weights in bf16, masters and file alike."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))
    kept = model.dtype
    model.to(torch.bfloat16).save_pretrained(folder)
    model.to(kept)
    return folder


class Training:
    """A few steps of AdamW on random tokens, quick enough for many weights to change."""

    def __init__(self, model, lr=1e-4):
        self.model = model
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self._tokens = torch.randint(97, (4, 16), generator=torch.Generator().manual_seed(1))

    def step(self):
        self.model(input_ids=self._tokens, labels=self._tokens).loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()


class Reference:
    """A view's tensors by the view alone, version after version."""

    def __init__(self, view, served, views_of):
        self.view, self._served = view, served  # of version 0, from the board
        self._dtype = torch.bfloat16 if views_of == "served" else torch.float32

    def step(self, model):
        made = {}
        for name, weight in model.state_dict().items():
            made |= self.view.quantize(name, weight.to(self._dtype), self._served.__getitem__).tensors
        self._served = made
        return made


@pytest.mark.parametrize(("scales", "views_of"), [("frozen", "served"), ("frozen", "masters"), ("recompute", "served")])
def test_ten_versions_in_four_views_come_out_bit_for_bit(scales, views_of, tmp_path):
    model = llama()
    views = [View(name, scales=scales, dtype="bf16") for name in NAMES]
    training = Training(model)
    run, board = "grpo-1", tmp_path / "board"
    base = save_base(model, tmp_path / "base")
    with Publisher(board, run, base=base, views=views, views_of=views_of, state=tmp_path / "state") as publisher:
        islands = {view.name: tmp_path / f"island-{view.name}" for view in views}
        references = {
            view.name: Reference(view, pulled(board, f"{run}/{view.name}", islands[view.name]), views_of)
            for view in views
        }
        rescaled = dict.fromkeys(NAMES, 0)
        for version in range(1, VERSIONS + 1):
            training.step()
            receipt = publisher.publish(model, step=version)
            assert (receipt.version, sorted(receipt.views)) == (version, sorted(NAMES))
            own = pulled(board, run, tmp_path / "island")
            assert same(own, {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()})
            for name, island in islands.items():
                assert same(pulled(board, f"{run}/{name}", island), references[name].step(model)), (name, version)
                assert 0 < receipt.views[name].changed < receipt.views[name].elements
                assert receipt.views[name].blocks > 0
                rescaled[name] += receipt.views[name].rescaled
        if scales == "frozen":
            assert sum(rescaled.values()) < sum(one.blocks for one in receipt.views.values()) / 100
        else:
            assert rescaled["fp8-block"] > receipt.views["fp8-block"].blocks
            for view in views:
                assert_is_as_quantised_directly(view, islands[view.name], tmp_path)


def answer_of(folder):
    """What transformers' model answers on the CPU, or by which error it refuses to load."""
    try:
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        with torch.no_grad():
            return loaded(torch.arange(16).reshape(1, 16)).logits
    except Exception as error:
        return type(error).__name__


def assert_is_as_quantised_directly(view, island, tmp_path):
    """The island's tensors are those of the view's own writer, given the run's own checkpoint; transformers makes the
    same of both."""
    direct = tmp_path / f"direct-{view.name}"
    view.write(tmp_path / "island", direct)
    assert same(load_file(island / "model.safetensors"), load_file(direct / "model.safetensors"))
    answers = [answer_of(folder) for folder in (direct, island)]
    refused = [answer for answer in answers if isinstance(answer, str)]
    assert len(set(refused)) == 1 and len(refused) == 2 if refused else torch.equal(*answers), answers


def test_arrays_that_come_once_are_enough_for_all_views(tmp_path):
    """The masters are gone through once, and each is made once, however many views there are."""
    model, made = llama(), Counter()
    base = save_base(model, tmp_path / "base")
    Training(model).step()

    def once():
        for name, weight in model.state_dict().items():
            yield name, weight, lambda name=name, weight=weight: made.update([name]) or weight

    with Publisher(tmp_path / "board", "r", base=base, views=NAMES, state=tmp_path / "state") as publisher:
        receipt = publisher.publish(once())
    assert set(made.values()) == {1} and len(made) == len(model.state_dict())
    assert receipt.version == 1 and all(view.changed for view in receipt.views.values())


def test_a_publisher_has_the_views_that_the_run_began_with(tmp_path):
    model = llama()
    base, where = save_base(model, tmp_path / "base"), {"state": tmp_path / "state"}
    Publisher(tmp_path / "board", "r", base=base, views=["nf4"], **where).close()
    for views in ((), ["fp8-block"], ["nf4", "mxfp4"]):
        with pytest.raises(Invalid, match=r"run r has \['nf4'\]"):
            Publisher(tmp_path / "board", "r", views=views, **where)
    for views, message in (("nf4", "sequence"), (["nf4", View("nf4")], "twice"), (["fp5"], "fp5")):
        with pytest.raises(Invalid, match=message):
            Publisher(tmp_path / "other", "r", base=base, views=views, **where)
    with Board(tmp_path / "board") as board:
        assert board.head("r").views == ["nf4"]
        assert board.head("r/nf4").version == 0
    with Publisher(tmp_path / "board", "r", views=["nf4"], **where) as publisher:
        with pytest.raises(Invalid, match="made of arrays"):
            publisher.publish(base)
        assert not publisher.publish(model).published


def test_publishing_goes_on_after_a_restart_with_the_scales_of_the_last_version(tmp_path):
    """Frozen scales are those of the version before, whoever published it."""
    digests = {}
    for restarts in (False, True):
        model, folder = llama(), tmp_path / f"restarts-{restarts}"
        folder.mkdir()
        base = save_base(model, folder / "base")
        training = Training(model)
        options = {"views": ["fp8-block"], "state": folder / "state"}
        publisher = Publisher(folder / "board", "r", base=base, **options)
        for version in range(1, 5):
            training.step()
            publisher.publish_async(model).result()
            if restarts:
                publisher.close()
                options["state"] = folder / f"state-{version}"
                publisher = Publisher(folder / "board", "r", **options)
        publisher.close()
        pulled(folder / "board", "r/fp8-block", folder / "island")
        digests[restarts] = {
            name: digest for name, digest in digest_of(folder / "island").items() if not name.startswith(".skerry")
        }
        assert json.loads((folder / "island" / "config.json").read_text())["quantization_config"]["quant_method"] == "fp8"
    assert digests[False] == digests[True]
