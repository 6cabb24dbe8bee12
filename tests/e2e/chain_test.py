"""Exactness on a chain of real versions: whatever the way to a version, every file has the source's SHA-256.

SKERRY_CHAIN=DIR takes another chain, a directory with v000, v001, …; of a long one it runs all fresh pulls and all
steps, and a spread of the jumps, and holds its skips to SKERRY_SKIP_RATIO (0.75) of the deltas that they replace.
"""

import os
import random
import shutil
from pathlib import Path

import pytest

import board_files
import chain
from checkpoint_files import assert_same_files, files_of
from program import FAILED, skerry
from routes import edge_bytes

ALL_JUMPS_UP_TO = 12  # versions; of a longer chain
SAMPLED_JUMPS = 30  # of them are run


def spread(pairs, versions):
    """All pairs of a short chain; of a long one the widest, the ones next to each other at both ends, and a sample."""
    if versions <= ALL_JUMPS_UP_TO:
        return pairs
    by_width = sorted(pairs, key=lambda pair: abs(pair[1] - pair[0]))
    chosen = {by_width[0], by_width[-1], *random.Random(versions).sample(pairs, min(SAMPLED_JUMPS, len(pairs)))}
    return sorted(chosen)


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """The chain's directories, oldest first."""
    given = os.environ.get("SKERRY_CHAIN")
    if given:
        return sorted(path for path in Path(given).glob("v[0-9]*") if path.is_dir())
    return chain.expand(tmp_path_factory.mktemp("chain"))


@pytest.fixture(scope="module")
def files(versions):
    return [files_of(directory) for directory in versions]


@pytest.fixture(scope="module")
def last(versions):
    return len(versions) - 1


@pytest.fixture(scope="module")
def patches(versions, tmp_path_factory, summary):
    """The patch from each version to the next."""
    directory = tmp_path_factory.mktemp("patches")
    made, size, changed = [], 0, 0
    for n in range(1, len(versions)):
        patch = directory / f"{n}.skerry"
        receipt = skerry("diff", versions[n - 1], versions[n], "-o", patch, "--json").json
        assert receipt["patch_bytes"] == patch.stat().st_size
        size += receipt["patch_bytes"]
        changed += receipt["changed"]
        made.append(patch)
    summary.append(
        f"chain of {len(versions)} versions: {len(made)} patches, {size:,} bytes as whole files for {changed:,} changed"
        f" elements: {size / changed:.4f} bytes each"
    )
    return made


@pytest.fixture(scope="module")
def board(versions, tmp_path_factory, summary):
    """A board with the whole chain, published from one trainer."""
    directory = tmp_path_factory.mktemp("board")
    skerry("init", directory / "b", "--run", "chain", "--base", versions[0])
    size, changed = 0, 0
    for n in range(1, len(versions)):
        receipt = skerry(
            "publish",
            directory / "b",
            versions[n],
            "--run",
            "chain",
            "--step",
            10 * n,
            "--state",
            directory / "s",
            "--json",
        ).json
        assert (receipt["version"], receipt["published"], receipt["step"]) == (n, True, 10 * n)
        size += receipt["patch_bytes"]
        changed += receipt["changed"]
    checkpoint = sum(file.stat().st_size for file in versions[0].glob("*.safetensors"))
    summary.append(
        f"the same on a board: {size:,} bytes of patches, {size / changed:.4f} bytes a changed element; "
        f"{size / checkpoint / (len(versions) - 1):.3%} of a checkpoint a version"
    )
    return directory / "b"


def pull(board, output, version=None):
    wanted = [] if version is None else ["--version", version]
    return skerry("pull", board, "--run", "chain", "-o", output, *wanted, "--json").json


def test_each_patch_makes_the_next_version_as_a_new_directory(versions, files, patches, tmp_path):
    for n, patch in enumerate(patches, 1):
        skerry("apply", versions[n - 1], patch, "-o", tmp_path / "new")
        assert_same_files(tmp_path / "new", files[n], f"version {n}")
        shutil.rmtree(tmp_path / "new")


def test_rebuilding_does_not_touch_the_base(versions, files, patches, tmp_path):
    skerry("apply", versions[0], patches[0], "-o", tmp_path / "new")
    assert_same_files(versions[0], files[0])
    assert not (versions[0] / ".skerry").exists()


def test_each_patch_moves_a_checkpoint_in_place(versions, files, patches, tmp_path):
    shutil.copytree(versions[0], tmp_path / "here")
    for n, patch in enumerate(patches, 1):
        skerry("apply", tmp_path / "here", patch, "--in-place")
        assert_same_files(tmp_path / "here", files[n], f"version {n}")
        skerry("verify", tmp_path / "here")


def test_diff_and_apply_work_between_any_two_versions_in_both_directions(versions, files, last, tmp_path):
    pairs = [(k, n) for k in range(last + 1) for n in range(last + 1) if k != n]
    for k, n in spread(pairs, last + 1):
        skerry("diff", versions[k], versions[n], "-o", tmp_path / "p")
        skerry("apply", versions[k], tmp_path / "p", "-o", tmp_path / "new")
        assert_same_files(tmp_path / "new", files[n], f"from {k} to {n}")
        shutil.rmtree(tmp_path / "new")


def test_the_board_holds_every_version_with_all_that_leads_to_it(board, versions, last):
    manifests = board_files.walk(board, "chain")
    assert [manifest["version"] for manifest in manifests] == list(range(last, -1, -1))
    assert [manifest.get("step") for manifest in manifests] == [10 * n for n in range(last, 0, -1)] + [None]
    for manifest in manifests:
        files = files_of(versions[manifest["version"]])
        sides = {name: sha256 for name, sha256 in files.items() if not name.endswith(".safetensors")}
        assert {file["path"]: file["sha256"] for file in manifest["side_files"]} == sides


def test_a_fresh_pull_of_each_version_is_the_published_checkpoint(board, files, tmp_path):
    for n, wanted in enumerate(files):
        receipt = pull(board, tmp_path / f"{n}", n)
        assert (receipt["version"], receipt["from"]) == (n, None)
        assert_same_files(tmp_path / f"{n}", wanted, f"version {n}")
        assert skerry("verify", tmp_path / f"{n}", "--json").json["model_digest"] == receipt["model_digest"]
        shutil.rmtree(tmp_path / f"{n}")


def test_an_island_that_follows_step_by_step_has_each_version(board, files, tmp_path):
    for n, wanted in enumerate(files):
        receipt = pull(board, tmp_path / "island", n)
        if n > 0:
            assert (receipt["from"], receipt["patches"], receipt["healed"]) == (n - 1, 1, False)
        assert_same_files(tmp_path / "island", wanted, f"version {n}")


def test_an_island_reaches_any_later_version_in_one_pull(board, files, last, tmp_path):
    pairs = spread([(k, n) for k in range(last) for n in range(k + 1, last + 1)], last + 1)
    for k in sorted({k for k, _ in pairs}):
        pull(board, tmp_path / "kept", k)
        for n in [n for start, n in pairs if start == k]:
            shutil.copytree(tmp_path / "kept", tmp_path / "island")
            receipt = pull(board, tmp_path / "island", n)
            assert receipt["version"] == n and not receipt["healed"]
            assert receipt["from"] in (k, None)  # an anchor may be cheaper
            assert_same_files(tmp_path / "island", files[n], f"from {k} to {n}")
            shutil.rmtree(tmp_path / "island")
        shutil.rmtree(tmp_path / "kept")


def test_an_island_goes_back_to_any_earlier_version(board, files, last, tmp_path):
    pull(board, tmp_path / "island")
    for n in reversed(range(last)):
        receipt = pull(board, tmp_path / "island", n)
        assert (receipt["version"], receipt["healed"]) == (n, False)
        assert_same_files(tmp_path / "island", files[n], f"back to {n}")


def test_an_island_wanders_in_any_order_and_is_always_exact(board, files, last, tmp_path):
    random_order = random.Random(5)
    for _ in range(12):
        n = random_order.randint(0, last)
        pull(board, tmp_path / "island", n)
        assert_same_files(tmp_path / "island", files[n], f"at {n}")


def test_nothing_but_a_lock_lies_beside_an_island_after_each_pull(board, last, tmp_path):
    for n in (0, last, 1, last):
        pull(board, tmp_path / "island", n)
        assert {path.name for path in tmp_path.iterdir()} <= {"island", ".island.lock"}
        assert not (tmp_path / ".island.lock").exists() or (tmp_path / ".island.lock").stat().st_size == 0


def test_a_pull_of_a_version_that_is_there_already_fetches_nothing(board, last, tmp_path):
    pull(board, tmp_path / "island")
    receipt = pull(board, tmp_path / "island")
    assert (receipt["from"], receipt["version"], receipt["bytes_fetched"], receipt["patches"]) == (last, last, 0, 0)


def test_a_version_that_is_not_published_yet_is_refused_by_number(board, last, tmp_path):
    ran = skerry("pull", board, "--run", "chain", "-o", tmp_path / "x", "--version", last + 1, expect=FAILED)
    assert f"version {last}" in ran.err and f"{last + 1}" in ran.err
    assert not (tmp_path / "x").exists()


@pytest.mark.skipif("SKERRY_CHAIN" not in os.environ, reason="for chains of real versions")
def test_skips_are_smaller_than_the_deltas_that_they_replace(board, summary):
    manifests = {manifest["version"]: manifest for manifest in board_files.walk(board, "chain")}
    delta = {n: edge_bytes(manifest["edges"][0]) for n, manifest in manifests.items() if n > 0}
    skips, replaced = {}, {}
    for n, manifest in sorted(manifests.items()):
        for edge in manifest["edges"][1:]:
            over = n - edge["from"]
            skips.setdefault(over, []).append(edge_bytes(edge))
            replaced.setdefault(over, []).append(sum(delta[k] for k in range(edge["from"] + 1, n + 1)))
    assert skips
    for over, sizes in skips.items():
        ratio = sum(sizes) / sum(replaced[over])
        each = ", ".join(f"{size / deltas:.3f}" for size, deltas in zip(sizes, replaced[over]))
        summary.append(f"skips over {over} versions: {ratio:.3f} of their deltas ({each})")
        assert ratio <= float(os.environ.get("SKERRY_SKIP_RATIO", 0.75))


def test_a_patch_taken_off_the_board_applies_to_a_checkpoint(board, versions, files, tmp_path):
    (patch,) = board_files.version_dir(board, "chain", 1).glob("delta-*.skerry")
    skerry("apply", versions[0], patch, "-o", tmp_path / "new")
    assert_same_files(tmp_path / "new", files[1])
