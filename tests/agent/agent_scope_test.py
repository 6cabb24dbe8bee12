"""What an update does not name is not touched: neither in the checkpoint nor in an engine that takes changes."""

import json

import numpy as np

import small_model
from checkpoint_files import bf16, flip_bit, sha256_of, tensor_bytes
from trainer import Models, Trainer

DRAFT = "draft.layers.0.w"
TRAINED = {"layers.0.w", "layers.0.w_scale_inv", "norm.weight"}
THAWED = 4  # the first version in which the draft moves, too


class ModelsWithADraft(Models):
    """A target that each step changes beside a draft model that stays as it is up to version 3. Each tensor is in a
    shard of its own."""

    shards = 4

    def tensors(self, number):
        weight = np.random.default_rng(11).integers(0x3C00, 0x3F00, (200, 128), dtype=np.uint16)
        weight[0, 0] += max(0, number + 1 - THAWED)
        return small_model.tensors(number) | {DRAFT: bf16(weight)}


def watch_changes(engine):
    """A list that gets, for each update by changes that the engine prepares, the names of the tensors in it."""
    named, changed = [], engine.contract.changed

    def watched(positions, new):
        staged = changed(positions, new)
        named.append(set(staged))
        return staged

    engine.contract.changed = watched
    return named


def test_H8_a_frozen_draft_model_is_neither_written_nor_named_until_it_is_trained(agent, engine, tmp_path, assert_at):
    models = ModelsWithADraft(tmp_path / "models")
    trained = Trainer(models, tmp_path / "trained" / "b").train(THAWED)
    trainer = trained.copy(tmp_path / "b", 0)
    e = engine("vllm plugin", model=models.path(0))
    named = watch_changes(e)
    a = agent(trainer, e)
    a.wait_for_version(0)
    checkpoint = a.state / "checkpoint"
    shard = checkpoint / json.loads((checkpoint / "model.safetensors.index.json").read_text())["weight_map"][DRAFT]

    begin, end = tensor_bytes(shard, DRAFT)
    marked = (begin, (begin + end) // 2, end - 1)

    def mark():
        for place in marked:
            flip_bit(shard, place)

    # Whoever wrote the draft anew would undo this.
    mark()
    with_marks = sha256_of(shard)
    trainer.publish(1)
    assert a.wait_for_version(1)["last_update"]["tensors"] == len(TRAINED)
    trainer.publish(3)
    assert a.wait_for_version(3)["last_update"]["tensors"] == len(TRAINED)
    a.follow(1)
    assert a.wait_for_version(1)["last_update"]["how"] == "undo"
    a.follow("head")
    a.wait_for_version(3)
    assert named == [TRAINED] * 4, "forward twice, back, and forward again"
    assert sha256_of(shard) == with_marks
    mark()
    assert_at(a, trainer, 3, e)
    # Nothing says that it is frozen but that it does not change: the version that changes it names it.
    trainer.publish(THAWED)
    assert a.wait_for_version(THAWED)["last_update"]["tensors"] == len(TRAINED) + 1
    assert named[-1] == TRAINED | {DRAFT}
    assert_at(a, trainer, THAWED, e)
