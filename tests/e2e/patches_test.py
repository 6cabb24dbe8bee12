"""Patches as files: levels, several made into one, one turned round."""

import pytest

import chain
from checkpoint_files import assert_same_files
from program import CORRUPT, FAILED, USAGE, skerry


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    return chain.expand(tmp_path_factory.mktemp("chain"))


@pytest.fixture(scope="module")
def steps(versions, tmp_path_factory):
    """The patches of the chain's first steps."""
    directory = tmp_path_factory.mktemp("steps")
    for n in range(4):
        skerry("diff", versions[n], versions[n + 1], "-o", directory / f"{n}")
    return [directory / f"{n}" for n in range(4)]


def methods(patch):
    return set(skerry("show", patch, "--json").json["methods"])


def test_both_levels_rebuild_the_same_files_and_compact_is_the_smaller(versions, tmp_path):
    sizes = {}
    for level in ("fast", "compact"):
        made = skerry("diff", versions[0], versions[1], "-o", tmp_path / level, "--level", level, "--json").json
        assert made["level"] == level
        sizes[level] = made["patch_bytes"]
        skerry("apply", versions[0], tmp_path / level, "-o", tmp_path / f"{level}.out")
        assert_same_files(tmp_path / f"{level}.out", versions[1])
    assert sizes["compact"] < 0.8 * sizes["fast"]
    assert "sparse-magnitude" in methods(tmp_path / "compact")
    assert "sparse-magnitude" not in methods(tmp_path / "fast")


def test_compact_is_the_default(versions, steps, tmp_path):
    skerry("diff", versions[0], versions[1], "-o", tmp_path / "p", "--level", "compact")
    assert (tmp_path / "p").read_bytes() == steps[0].read_bytes()


def test_a_level_that_there_is_not_is_wrong_use(versions, tmp_path):
    ran = skerry("diff", versions[0], versions[1], "-o", tmp_path / "p", "--level", "best", expect=USAGE)
    assert "best" in ran.err and "compact" in ran.err and "fast" in ran.err


def test_a_run_published_at_either_level_is_pulled_alike(versions, tmp_path):
    skerry("init", tmp_path / "b", "--run", "r", "--base", versions[0])
    for n, level in ((1, "fast"), (2, "compact"), (3, "fast")):
        skerry("publish", tmp_path / "b", versions[n], "--run", "r", "--state", tmp_path / "s", "--level", level)
    skerry("pull", tmp_path / "b", "--run", "r", "-o", tmp_path / "island")
    assert_same_files(tmp_path / "island", versions[3])


def test_a_squashed_patch_is_the_patch_of_the_whole_way(versions, steps, tmp_path):
    made = skerry("squash", *steps, "--base", versions[0], "-o", tmp_path / "all", "--json").json
    straight = skerry("diff", versions[0], versions[4], "-o", tmp_path / "straight", "--json").json
    for fact in ("base_model", "target_model", "changed"):
        assert made[fact] == straight[fact]
    skerry("apply", versions[0], tmp_path / "all", "-o", tmp_path / "out")
    assert_same_files(tmp_path / "out", versions[4])


def test_an_inverted_patch_leads_back_also_in_place(versions, steps, tmp_path):
    skerry("invert", steps[0], "--base", versions[0], "-o", tmp_path / "back")
    skerry("apply", versions[1], tmp_path / "back", "-o", tmp_path / "out")
    assert_same_files(tmp_path / "out", versions[0])
    skerry("apply", tmp_path / "out", steps[0], "--in-place")
    assert_same_files(tmp_path / "out", versions[1])
    skerry("apply", tmp_path / "out", tmp_path / "back", "--in-place")
    assert_same_files(tmp_path / "out", versions[0])


def test_patches_in_the_wrong_order_are_refused_and_nothing_is_written(versions, steps, tmp_path):
    ran = skerry("squash", steps[1], steps[0], "--base", versions[0], "-o", tmp_path / "all", expect=FAILED)
    assert str(steps[1]) in ran.err and "base digest" in ran.err
    ran = skerry("invert", steps[1], "--base", versions[0], "-o", tmp_path / "back", expect=FAILED)
    assert str(steps[1]) in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_patch_is_named(versions, steps, tmp_path):
    damaged = bytearray(steps[1].read_bytes())
    damaged[30] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    ran = skerry("squash", steps[0], tmp_path / "damaged", "--base", versions[0], "-o", tmp_path / "all", expect=CORRUPT)
    assert str(tmp_path / "damaged") in ran.err
    assert not (tmp_path / "all").exists()
