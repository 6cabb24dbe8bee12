"""What readers fetch who come late to a long run: one without anything, and an island that was away for 30 versions."""

import pytest

import board_files
from adam_model import AdamModel
from checkpoint_files import assert_same_files, files_of
from program import skerry
from routes import cheapest, edge_bytes

VERSIONS = 200
AWAY = 30
MOST_PATCHES = 12  # that a late joiner may fetch beside an anchor, by bytes


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A board at version 200, an island at 170."""
    directory = tmp_path_factory.mktemp("late")
    model = AdamModel(directory / "trainer")
    skerry("init", directory / "b", "--run", "r", "--base", model.directory)
    for version in range(1, VERSIONS + 1):
        model.step()
        skerry("publish", directory / "b", model.directory, "--run", "r", "--state", directory / "s")
        if version == VERSIONS - AWAY:
            pull(directory, "island")
    return directory


@pytest.fixture(scope="module")
def manifests(place):
    """Newest first."""
    return board_files.walk(place / "b", "r")


def deltas(manifests):
    return [edge_bytes(edge) for manifest in manifests for edge in manifest["edges"] if edge["kind"] == "delta"]


def pull(place, where, *more):
    return skerry("pull", place / "b", "--run", "r", "-o", place / where, "--json", *more).json


def test_about_1_percent_of_the_elements_changes_at_each_version(manifests):
    for manifest in manifests[:-1]:
        assert 0.005 < manifest["stats"]["changed"] / manifest["stats"]["elements"] < 0.02


def test_a_late_joiner_fetches_an_anchor_and_no_more_than_12_patches(place, manifests, summary):
    way = cheapest(manifests)
    receipt = pull(place, "joiner")
    assert_same_files(place / "joiner", files_of(place / "trainer"))
    assert (receipt["from"], receipt["version"]) == (None, VERSIONS)
    assert (receipt["bytes_fetched"], receipt["patches"]) == (way.fetched, way.patches)
    patch = sum(deltas(manifests)) / VERSIONS
    tail = receipt["bytes_fetched"] - way.anchor["bytes"]
    assert tail <= MOST_PATCHES * patch
    summary.append(
        f"late joiner at version {VERSIONS}: the anchor of version {way.anchor['version']}, {way.anchor['bytes']:,} "
        f"bytes, and {tail:,} bytes of {way.patches} patches, as much as {tail / patch:.2f} mean deltas of {patch:,.0f} bytes"
    )


def test_an_island_that_was_away_for_30_versions_takes_the_skips(place, manifests, summary):
    way = cheapest(manifests, have=VERSIONS - AWAY)
    receipt = pull(place, "island")
    assert_same_files(place / "island", files_of(place / "trainer"))
    assert (receipt["from"], receipt["version"]) == (VERSIONS - AWAY, VERSIONS)
    assert (receipt["bytes_fetched"], receipt["patches"]) == (way.fetched, way.patches)
    missed = sum(deltas(manifests[:AWAY]))
    assert receipt["patches"] < AWAY / 2 and receipt["bytes_fetched"] < 0.75 * missed
    summary.append(
        f"an island {AWAY} versions behind: {receipt['bytes_fetched']:,} bytes in {receipt['patches']} patches, "
        f"{receipt['bytes_fetched'] / missed:.3f} of its {AWAY} deltas"
    )


def test_a_joiner_at_any_version_between_two_anchors_has_a_short_tail(manifests, summary):
    """Of the last 64 versions, as their readers would have found them: a tail, and up to 7 deltas behind a skip."""
    patch = sum(deltas(manifests)) / VERSIONS
    ways = [cheapest(manifests[n:]) for n in range(64)]
    tails = sorted((way.fetched - way.anchor["bytes"]) / patch for way in ways)
    assert tails[-1] <= MOST_PATCHES + 8
    summary.append(
        f"tails of joiners at versions {VERSIONS - 63} to {VERSIONS}: at most {tails[-1]:.2f} mean deltas, "
        f"median {tails[32]:.2f}"
    )
