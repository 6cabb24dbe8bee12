"""WeightTransfer driven by TRL's own code for weight syncs."""

import logging
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from published import Model, perturb, pulled, same, save_checkpoint, served  # noqa: E402
from scripted_agent import answer  # noqa: E402
from skerry import Publisher  # noqa: E402
from skerry.errors import Invalid  # noqa: E402
from skerry.names import NamesDiffer  # noqa: E402
from skerry.trl import WeightTransfer  # noqa: E402


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def publisher(model, tmp_path):
    base = save_checkpoint(model, tmp_path / "base")
    with Publisher(tmp_path / "board", "grpo-1", base=base, state=tmp_path / "state") as made:
        yield made


@pytest.fixture
def sync():
    """TRL's AsyncGRPOTrainer, as far as a weight sync goes."""
    from collections import defaultdict

    from accelerate import Accelerator
    from trl.experimental.async_grpo import AsyncGRPOTrainer
    from trl.experimental.async_grpo import async_grpo_trainer as module

    module.logger.logger.setLevel(logging.ERROR)

    def make(model, transfer):
        stand_in = SimpleNamespace(
            model=model, weight_transfer=transfer, accelerator=Accelerator(cpu=True), rollout_worker=None,
            model_version=0, _metrics={"train": defaultdict(list)},
        )  # fmt: skip
        stand_in._streaming_iter = lambda: AsyncGRPOTrainer._streaming_iter(stand_in)
        return lambda: AsyncGRPOTrainer._sync_weight(stand_in)

    return make


def test_every_weight_sync_is_a_version(publisher, model, sync, tmp_path):
    transfer = WeightTransfer(publisher)
    transfer.init_weight_transfer()
    run = sync(model, transfer)
    run()  # TRL's first sync sends what the engines have already
    assert publisher.wait() == 0
    for version in (1, 2, 3):
        perturb(model, seed=version)
        run()
        wanted = served(model)
        perturb(model, seed=100)  # the trainer goes on at once
        assert publisher.wait() == version
        assert same(pulled(publisher.board, "grpo-1", tmp_path / f"island-{version}", version), wanted)
    transfer.destroy()


def test_parameters_that_are_not_trained_are_not_given_and_must_be_frozen(publisher, model, sync, tmp_path):
    model.router.requires_grad_(False)
    perturb(model)
    with pytest.raises(NamesDiffer) as caught:
        sync(model, WeightTransfer(publisher))()
    assert caught.value.missing == ["router.bias", "router.weight"]
    publisher.close()
    with Publisher(publisher.board, "grpo-1", state=tmp_path / "state", frozen=["router.*"]) as partial:
        sync(model, WeightTransfer(partial))()
        assert partial.wait() == 1


def test_the_iterator_is_gone_through_to_its_end_also_after_an_error(publisher):
    """Other processes take part in making what it gives: they would wait for ever."""
    given = []

    def pairs():
        for number in range(5):
            given.append(number)
            yield f"unknown.{number}", torch.ones(1)
        raise AssertionError("the trainer's own error")  # never reached by who stops early

    with pytest.raises((NamesDiffer, AssertionError)):
        WeightTransfer(publisher).send_weights(pairs())
    assert given == list(range(5))

    def broken():
        yield 7, torch.ones(1)  # refused at once
        given.append("rest")
        yield "a", torch.ones(1)

    with pytest.raises(Invalid):
        WeightTransfer(publisher).send_weights(broken())
    assert given[-1] == "rest"


def test_resume_waits_until_an_island_serves_what_was_sent(publisher, model, start):
    looks = iter([0, 0, 1, 1, 1])
    agent = start(lambda request: answer({"version": next(looks)}))
    transfer = WeightTransfer(publisher, agents=agent.url, wait=30)
    transfer.init_weight_transfer()
    perturb(model)
    transfer.pause()
    transfer.send_weights(model.named_parameters())
    transfer.resume()
    assert len(agent.requests) == 3
    transfer.destroy()


def test_resume_goes_on_with_a_warning_when_no_island_comes_to_it_in_time(publisher, model, start, caplog):
    behind, gone = start(lambda request: answer({"version": 0})), start(lambda request: answer({}))
    gone.close()
    transfer = WeightTransfer(publisher, agents=[behind.url, gone.url], wait=0.3)
    transfer.init_weight_transfer()
    perturb(model)
    transfer.send_weights(model.named_parameters())
    with caplog.at_level(logging.WARNING, logger="skerry"):
        transfer.resume()
    assert "no island serves version 1" in caplog.text and "serves version 0" in caplog.text
    transfer.destroy()


def test_what_a_sync_failed_by_is_raised_by_the_next(publisher, model):
    def fail(*_):
        raise RuntimeError("the board is gone")

    publisher._publish, real = fail, publisher._publish
    transfer = WeightTransfer(publisher)
    perturb(model)
    transfer.send_weights(model.named_parameters())
    with pytest.raises(RuntimeError, match="the board is gone"):
        transfer.pause()
    publisher._publish = real
    transfer.send_weights(model.named_parameters())
    transfer.destroy()
    assert publisher.version == 1


def test_J2_something_else_than_a_publisher_is_refused():
    with pytest.raises(Invalid, match="^publisher: "):
        WeightTransfer("s3://bucket/board")
