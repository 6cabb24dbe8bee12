"""Publishing in the background, what fails there, restarts, and several publishers of one run."""

import threading

import pytest

torch = pytest.importorskip("torch")

from published import (  # noqa: E402, F401
    Model,
    base,
    digest_of,
    model,
    perturb,
    publisher,
    read,
    reopened,
    same,
    served,
)
from skerry.errors import Conflict, Invalid, SkerryError  # noqa: E402


def test_publish_async_has_read_the_weights_when_it_returns(publisher, model, tmp_path):
    wanted = []
    for step in range(6):
        perturb(model, seed=step)
        wanted.append(served(model))
        publisher.publish_async(model, step=step)
        perturb(model, share=1.0, seed=99)  # the next optimizer step comes at once
        with torch.no_grad():
            for parameter, tensor in zip(model.parameters(), wanted[-1].values(), strict=True):
                parameter.copy_(tensor.float())
    assert publisher.wait() == 6
    for version, tensors in enumerate(wanted, 1):
        assert same(read(publisher, tmp_path, version), tensors)


def test_a_handle_tells_the_receipt_and_calls_back_once(publisher, model):
    called = threading.Event()
    perturb(model)
    handle = publisher.publish_async(model, step=1)
    handle.add_done_callback(lambda done: called.set())
    receipt = handle.result(60)
    assert handle.done() and not handle.failed and handle.exception() is None and receipt.version == 1
    assert called.wait(10) and not publisher.in_flight
    late = []
    handle.add_done_callback(late.append)
    assert late == [handle]


class Full:
    """A disk that takes nothing of one version: a file is in the place of its folder."""

    def __init__(self, board, version):
        self._place = board / "runs" / "grpo-1" / "versions" / f"{version:09d}"

    def __enter__(self):
        self._place.write_bytes(b"")

    def __exit__(self, *_):
        self._place.unlink()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_F1_after_a_failed_publish_the_next_is_against_the_last_durable_version(
    publisher, model, tmp_path, asynchronous
):
    perturb(model, seed=1)
    publisher.publish(model)
    perturb(model, seed=2)
    with Full(tmp_path / "board", version=2):
        if asynchronous:
            handle = publisher.publish_async(model, step=2)
            assert isinstance(handle.exception(60), SkerryError)
        else:
            with pytest.raises(SkerryError):
                publisher.publish(model, step=2)
    assert publisher.version == 1
    perturb(model, seed=3)
    assert publisher.publish(model, step=3).version == 2
    assert same(read(publisher, tmp_path, 2), served(model))


def test_what_a_publish_in_the_background_failed_by_is_raised_by_the_next_call_once(publisher, model, tmp_path):
    perturb(model)
    with Full(tmp_path / "board", version=1):
        publisher.publish_async(model).wait(60)
    with pytest.raises(SkerryError):
        publisher.publish_async(model)
    assert publisher.publish(model).version == 1

    perturb(model, seed=2)
    with Full(tmp_path / "board", version=2):
        with pytest.raises(SkerryError):
            publisher.publish_async(model).result(60)
    assert publisher.publish(model).version == 2  # it had been told

    perturb(model, seed=3)
    with Full(tmp_path / "board", version=3):
        publisher.publish_async(model).wait(60)
    with pytest.raises(SkerryError):
        publisher.close()
    publisher.close()  # told, and closed
    with pytest.raises(Invalid, match="is closed"):
        publisher.publish(model)


def test_a_restarted_trainer_goes_on_from_the_board(publisher, model, tmp_path):
    perturb(model)
    publisher.publish(model, step=1)
    publisher.close()
    for state in ("state", "another machine's state"):
        perturb(model, seed=2 + len(state))
        with reopened(publisher, tmp_path, state=tmp_path / state) as again:
            before = again.version
            assert again.publish(model).version == before + 1
        assert same(read(publisher, tmp_path, before + 1), served(model))


def test_F9_a_trainer_that_resumes_from_an_older_checkpoint_makes_a_new_version_of_it(publisher, model, tmp_path):
    saved = None
    for step in range(1, 4):
        perturb(model, seed=step)
        publisher.publish(model, step=step)
        saved = served(model) if step == 1 else saved
    publisher.close()
    with reopened(publisher, tmp_path) as resumed:
        receipt = resumed.publish(saved, step=1)
    assert (receipt.version, receipt.step) == (4, 1)
    assert same(read(publisher, tmp_path, 4), saved)


def test_F10_a_publisher_that_was_replaced_stops_and_harms_nothing_until_it_takes_the_run_back(
    publisher, model, tmp_path
):
    perturb(model)
    publisher.publish(model)
    other = Model()
    perturb(other, seed=7)
    with reopened(publisher, tmp_path, state=tmp_path / "other") as winner:
        assert winner.publish(other).version == 2
    winners = digest_of(tmp_path / "board")

    perturb(model, seed=8)
    with pytest.raises(Conflict):
        publisher.publish(model)
    assert digest_of(tmp_path / "board").items() >= winners.items()  # objects that nobody names may have come
    with pytest.raises(Conflict):
        publisher.publish_async(model).result(60)
    publisher.close()
    with reopened(publisher, tmp_path, on_conflict="take-over") as back:
        assert back.publish(model).version == 3
    assert same(read(publisher, tmp_path, 3), served(model))
