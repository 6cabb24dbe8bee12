"""A run in several views at once: each island has, to the last byte, what the view makes of that version's weights."""

import pytest

torch = pytest.importorskip("torch")
for library in ("transformers", "compressed_tensors", "bitsandbytes"):
    pytest.importorskip(library)

from transformers import AutoModelForCausalLM  # noqa: E402
from views_models import VOCABULARY, logits, save, tiny_llama  # noqa: E402

from skerry import Board, Publisher  # noqa: E402
from skerry.views import View  # noqa: E402

VIEWS = ("fp8-block", "mxfp4", "nf4")
VERSIONS = 10


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save(tiny_llama(), tmp_path_factory.mktemp("base") / "ckpt")


def training(masters):
    """Steps of AdamW on float32 masters; the learning rate lets some weights show at each, in every view."""
    optimizer = torch.optim.AdamW(masters.parameters(), lr=3e-5)
    generator = torch.Generator().manual_seed(1)
    while True:
        tokens = torch.randint(VOCABULARY, (4, 24), generator=generator)
        optimizer.zero_grad()
        masters(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        yield


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".skerry" not in path.parts
    }


def loaded(folder):
    with torch.compiler.set_stance("force_eager"):
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()


@pytest.mark.parametrize("views_of", ["served", "masters"])
def test_every_island_has_what_its_view_makes_of_every_version(views_of, base, tmp_path):
    masters = tiny_llama().float()
    expected = {"": base}
    for view in VIEWS:
        expected[view] = tmp_path / f"{view}-0"
        View(view).write(base, expected[view])
    steps = training(masters)
    changed = dict.fromkeys(VIEWS, 0)
    with (
        Board(tmp_path / "board") as board,
        Publisher(
            tmp_path / "board", "grpo-1", base=base, state=tmp_path / "state", views=VIEWS, views_of=views_of
        ) as publisher,
    ):
        for version in range(VERSIONS + 1):
            if version > 0:
                next(steps)
                receipt = publisher.publish(masters, step=version)
                assert receipt.version == version and receipt.published and set(receipt.views) == set(VIEWS)
                expected[""] = save(tiny_llama_like(masters), tmp_path / f"own-{version}")
                source = expected[""] if views_of == "served" else save(masters, tmp_path / f"masters-{version}")
                for view in VIEWS:
                    made = tmp_path / f"{view}-{version}"
                    written = View(view, dtype="bf16").write(source, made, previous=expected[view])
                    of_view = receipt.views[view]
                    assert (of_view.blocks, of_view.rescaled) == (written.blocks, written.rescaled)
                    changed[view] += of_view.changed
                    expected[view] = made
            for view, wanted in expected.items():
                island = tmp_path / f"island-{view or 'own'}"
                board.pull(f"grpo-1/{view}" if view else "grpo-1", island)
                found, made = files(island), files(wanted)
                assert found.keys() == made.keys()
                # Side files are the base's in every version.
                for name in ("model.safetensors", *(["config.json"] if version == 0 else [])):
                    assert found[name] == made[name], (view, version, name)
    assert all(changed.values()), changed
    for view, wanted in expected.items():
        late = tmp_path / f"late-{view or 'own'}"
        with Board(tmp_path / "board") as board:
            board.pull(f"grpo-1/{view}" if view else "grpo-1", late)
        assert files(late) == files(tmp_path / f"island-{view or 'own'}")
        assert torch.equal(logits(loaded(late)), logits(loaded(wanted)))


def tiny_llama_like(masters):
    """What the run's own view serves of them."""
    made = tiny_llama()
    made.load_state_dict({name: tensor.bfloat16() for name, tensor in masters.state_dict().items()})
    return made
