"""Every claim is kept by a good run, and by no run that breaks it."""

import dataclasses

import made_up
import pytest
from loop.claims import claims
from loop.measures import measure

GOOD_RUN = {
    "every version on every island": True,
    "checkpoints at the end": True,
    "the board at the end": True,
    "the board's account": True,
    "answers at the end": True,
    "requests with a floor": True,
    "who joins": True,
    "the trainer goes on": True,
    "bytes of a version": True,
    "full model bytes": True,
    "from publish to live": False,  # 2 s and more, where 1.89 were allowed
}


def judge(islands=None, final=made_up.GOOD, history=None):
    history = history or made_up.history()
    figures = measure(history, islands or made_up.islands(), made_up.WAY)
    return {claim.name: claim for claim in claims(figures, len(history.steps), final)}


def kept(**how):
    return {name: claim.kept for name, claim in judge(**how).items()}


def broken(**how):
    """Names of the claims that only this run breaks."""
    found = kept(**how)
    return [name for name, good in GOOD_RUN.items() if good and not found[name]]


def test_a_good_run_keeps_all():
    assert kept() == GOOD_RUN


def test_the_time_is_kept_where_every_arrival_is_within_its_bound():
    quick = made_up.north()
    for update in quick.updates[1:]:
        update.live -= 0.2
    assert kept(islands=[quick])["from publish to live"]
    assert not judge()["from publish to live"].must


def test_different_files_of_one_version():
    islands = made_up.islands()
    islands[2].updates[1].files = {"model.safetensors": "something else"}
    assert broken(islands=islands) == ["every version on every island"]
    assert "west v3" in judge(islands=islands)["every version on every island"].found


@pytest.mark.parametrize(
    "field, name",
    [
        ("islands", "checkpoints at the end"),
        ("board", "the board at the end"),
        ("digests", "the board's account"),
        ("answers", "answers at the end"),
    ],
)
def test_a_difference_at_the_end(field, name):
    final = dataclasses.replace(made_up.GOOD, **{field: ["north: this and that differ"]})
    assert broken(final=final) == [name]
    assert "this and that differ" in judge(final=final)[name].found


def test_an_end_where_nothing_was_compared():
    assert broken(final=dataclasses.replace(made_up.GOOD, compared_tokens=0)) == ["answers at the end"]


@pytest.mark.parametrize("start", [1, None])
def test_an_answer_by_weights_below_its_floor_or_without_a_stamp(start):
    islands = made_up.islands()
    islands[0].updates.append(made_up.update(start, 350.0))
    islands[0].requests.append(made_up.answer(322.5, 2, start))
    assert "requests with a floor" in broken(islands=islands)


def test_a_run_in_which_nobody_asked_for_a_floor():
    islands = made_up.islands()
    for island in islands:
        for request in island.requests:
            request.min_version = None
    assert broken(islands=islands) == ["requests with a floor"]


def test_an_answer_by_a_version_that_the_island_never_proved():
    islands = made_up.islands()
    islands[2].requests.append(made_up.answer(280.0, None, 1))
    assert broken(islands=islands) == ["who joins"]


def test_a_run_in_which_nobody_was_asked_too_early():
    islands = made_up.islands()
    for island in islands:
        island.requests = island.given()
    assert broken(islands=islands) == ["who joins"]


def test_a_step_that_did_not_come_to_its_end():
    history = made_up.history()
    history.add({"event": "began", "step": 4, "time": 400.0})
    assert broken(history=history) == ["the trainer goes on"]


def test_a_run_in_which_no_island_was_missing():
    assert broken(islands=[made_up.north()]) == ["the trainer goes on"]


def test_a_patch_that_took_more_bytes_than_its_file():
    islands = made_up.islands()
    islands[0].board[-1].received = int(made_up.PATCH * 1.06)
    assert broken(islands=islands) == ["bytes of a version"]


def test_a_full_model_fetched_again():
    islands = made_up.islands()
    islands[0].board += made_up.joining(250.0)
    assert broken(islands=islands) == ["full model bytes"]
