"""Publisher against real boards in directories: what it was given is what islands get."""

import pickle

import pytest

torch = pytest.importorskip("torch")

from published import (  # noqa: E402, F401
    Model,
    base,
    model,
    perturb,
    publisher,
    pulled,
    read,
    reopened,
    same,
    save_checkpoint,
    served,
)
from skerry import Board, Publisher  # noqa: E402
from skerry.names import NamesDiffer  # noqa: E402


def test_F3_the_base_is_version_0_and_the_first_change_is_version_1(publisher, model, tmp_path):
    assert publisher.version == 0
    assert same(read(publisher, tmp_path, 0), served(model))
    perturb(model)
    receipt = publisher.publish(model, step=10)
    assert (receipt.version, receipt.published, receipt.step, publisher.version) == (1, True, 10, 1)
    assert same(read(publisher, tmp_path, 1), served(model))


def test_masters_are_rounded_as_torch_rounds_them_special_values_included(publisher, model, tmp_path):
    specials = torch.tensor(
        [0x7F800000, 0xFF800000, 0x80000000, 0x00000001, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7FC12345]
    )
    with torch.no_grad():
        model.layers[0].weight.view(-1)[:8] = specials.to(torch.int32).view(torch.float32)
    publisher.publish(model)
    found, wanted = read(publisher, tmp_path), served(model)
    nan = wanted["layers.0.weight"].isnan()
    assert torch.equal(found["layers.0.weight"].isnan(), nan)
    for tensors in (found, wanted):
        tensors["layers.0.weight"][nan] = 0  # which NaN it is, is nobody's promise
    assert same(found, wanted)


def test_a_receipt_counts_what_changed_and_can_be_pickled(publisher, model):
    before = served(model)
    perturb(model, share=0.02)
    after = served(model)
    receipt = publisher.publish(model, step=3)
    changed = {
        name: int(
            (
                before[name].view(torch.uint8).view(*before[name].shape, -1)
                != after[name].view(torch.uint8).view(*after[name].shape, -1)
            )
            .any(-1)
            .sum()
        )
        for name in after
    }
    assert receipt.changed == sum(changed.values()) > 0
    assert receipt.elements == sum(tensor.numel() for tensor in after.values())
    assert receipt.tensors_changed == sum(count > 0 for count in changed.values())
    assert receipt.density == receipt.changed / receipt.elements
    assert 0 < receipt.patch_bytes < receipt.checkpoint_bytes == sum(tensor.nbytes for tensor in after.values())
    assert receipt.seconds["total"] >= receipt.seconds["capture"] > 0
    assert pickle.loads(pickle.dumps(receipt)) == receipt


def test_nothing_changed_is_nothing_published_unless_an_empty_version_is_wanted(publisher, model, tmp_path):
    receipt = publisher.publish(model, step=1)
    assert (receipt.published, receipt.version, receipt.changed) == (False, 0, 0)
    receipt = publisher.publish(model, step=2, allow_empty=True)
    assert (receipt.published, receipt.version, receipt.changed) == (True, 1, 0)
    assert same(read(publisher, tmp_path, 1), served(model))


def test_F7_with_a_learning_rate_of_0_ten_publishes_are_empty_and_of_one_digest(publisher, model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0)
    digests = set()
    for step in range(10):
        optimizer.zero_grad()
        model(torch.arange(50)).square().mean().backward()
        optimizer.step()
        receipt = publisher.publish(model, step=step, allow_empty=True)
        assert receipt.changed == 0
        digests.add(receipt.model)
    assert publisher.version == 10 and len(digests) == 1


def test_F14_versions_count_publishes_and_steps_are_kept_with_them(publisher, model, tmp_path):
    for step in (5, 10, 15):
        perturb(model, seed=step)
        publisher.publish(model, step=step)
    with Board(publisher.board) as board:
        assert {one.version: one.step for one in board.versions("grpo-1")} == {0: None, 1: 5, 2: 10, 3: 15}
    assert same(read(publisher, tmp_path, 3), served(model))


def test_A5_and_A6_what_moved_between_two_publishes_counts_not_the_last_step(publisher, model, tmp_path):
    with torch.no_grad():
        there = model.layers[0].weight[0, 0].clone()
        model.layers[0].weight[0, 0] = 1.0  # there …
        model.layers[1].weight[0, 0] = 1.0  # moves in an early step only
        model.layers[2].weight[0, 0] = 1.0
        model.layers[0].weight[0, 0] = there  # … and back
    receipt = publisher.publish(model)
    assert (receipt.changed, receipt.tensors_changed) == (2, 2)
    assert same(read(publisher, tmp_path), served(model))


FORMS = {
    "a module": lambda model: model,
    "a state dict": lambda model: model.state_dict(),
    "pairs, one by one": lambda model: ((name, tensor.clone()) for name, tensor in model.named_parameters()),
    "tensors in the served dtypes": lambda model: served(model),
    "tensors that are not contiguous": lambda model: {
        name: tensor.detach().t().contiguous().t() if tensor.dim() == 2 else tensor
        for name, tensor in model.named_parameters()
    },
    "numpy": lambda model: {name: tensor.detach().numpy() for name, tensor in model.named_parameters()},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_weights_makes_the_same_version(form, model, base, tmp_path):
    models = set()
    for number, weights in enumerate([FORMS[form], FORMS["a module"]]):
        other = Model()
        perturb(other)
        with Publisher(tmp_path / f"board-{number}", "r", base=base, state=tmp_path / f"state-{number}") as publisher:
            models.add(publisher.publish(weights(other)).model)
            assert same(pulled(publisher.board, "r", tmp_path / f"island-{number}"), served(other))
    assert len(models) == 1


def test_a_checkpoint_directory_can_be_published_too(publisher, model, tmp_path):
    perturb(model)
    receipt = publisher.publish(save_checkpoint(model, tmp_path / "next"), step=4)
    assert (receipt.version, receipt.step) == (1, 4)
    assert same(read(publisher, tmp_path), served(model))
    perturb(model, seed=2)
    assert publisher.publish(model).version == 2
    assert same(read(publisher, tmp_path, 2), served(model))


def test_F13_an_undeclared_gap_lists_the_names_and_a_declared_one_keeps_the_base(publisher, model, base, tmp_path):
    old = served(model)
    perturb(model)
    given = {name: tensor for name, tensor in model.named_parameters() if not name.startswith("layers.")}
    with pytest.raises(NamesDiffer) as caught:
        publisher.publish(given)
    assert caught.value.missing == [f"layers.{i}.weight" for i in range(3)]
    assert publisher.publish(served(Model()), step=1).published is False  # and nothing had been published
    publisher.close()

    with reopened(publisher, tmp_path, frozen=["layers.*"]) as partial:
        partial.publish(given)
    wanted = served(model) | {name: tensor for name, tensor in old.items() if name.startswith("layers.")}
    assert same(read(publisher, tmp_path), wanted)


def test_check_publishes_nothing(publisher, model):
    publisher.check(model)
    with pytest.raises(NamesDiffer):
        publisher.check({"embed.weight": torch.zeros(1)})
    assert publisher.version == 0


def test_F5_adapters_are_published_merged_twice_without_a_bit_of_drift(tmp_path):
    peft = pytest.importorskip("peft")
    for number, dtype in enumerate([torch.float32, torch.bfloat16]):
        plain = Model().to(dtype)
        plain.router.float()
        base = save_checkpoint(plain, tmp_path / f"base-{number}")
        adapted = peft.get_peft_model(
            plain, peft.LoraConfig(target_modules=["0", "1", "2"], r=4, init_lora_weights=False)
        )
        with Publisher(tmp_path / f"board-{number}", "r", base=base, state=tmp_path / f"state-{number}") as publisher:
            first = publisher.publish(adapted)
            assert first.published and first.tensors_changed == 3
            second = publisher.publish(adapted)
            assert not second.published and second.model == first.model
            merged = adapted.merge_and_unload()
            found = pulled(publisher.board, "r", tmp_path / f"island-{number}")
            assert same(found, served(merged))


def test_threads_and_levels_make_the_same_model(model, base, tmp_path):
    perturb(model)
    digests = set()
    for number, options in enumerate([{"threads": 1}, {"threads": 2, "level": "fast"}]):
        with Publisher(tmp_path / f"b{number}", "r", base=base, state=tmp_path / f"s{number}", **options) as publisher:
            digests.add(publisher.publish(model).model)
    assert len(digests) == 1
