"""The native loops against the same thing said in numpy."""

import threading

import numpy as np
import pytest

from skerry import _core

UNITS = [np.uint8, np.uint16, np.uint32, np.uint64]


def raw(array):
    return array.reshape(-1).view(np.uint8)


def select(source, indices, dimensions, source_offset, destination_offset, position_type=np.uint32):
    positions = np.zeros(len(indices), position_type)
    values = np.zeros(len(indices), source.dtype)
    count = _core.select(
        indices, raw(source), source.itemsize, dimensions, source_offset, destination_offset, positions, raw(values)
    )
    return positions[:count], values[:count]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("index_type", [np.uint32, np.uint64])
@pytest.mark.parametrize("position_type", [np.uint32, np.uint64])
def test_a_slice_of_a_transposed_matrix_moves_like_numpy_moves_it(unit, index_type, position_type):
    rng = np.random.default_rng(7)
    old = rng.integers(0, 255, (12, 20)).astype(unit)
    new = old.copy()
    indices = np.sort(rng.choice(old.size, 90, replace=False)).astype(index_type)
    new.reshape(-1)[indices] += unit(1)
    # rows 2..10, columns 5..17 go to the transpose of a part of a larger matrix
    live, want = np.zeros((30, 11), unit), np.zeros((30, 11), unit)
    live[4:16, 3:11] = old[2:10, 5:17].T
    want[4:16, 3:11] = new[2:10, 5:17].T
    positions, values = select(new, indices, [(8, 20, 1), (12, 1, 11)], 2 * 20 + 5, 4 * 11 + 3, position_type)
    assert 0 < len(positions) < len(indices)
    assert _core.differing(raw(live), live.itemsize, positions, raw(values)) == len(positions)
    _core.scatter(raw(live), live.itemsize, positions, raw(values))
    assert np.array_equal(live, want)
    assert _core.differing(raw(live), live.itemsize, positions, raw(values)) == 0


def test_no_change_is_no_store():
    source, live = np.arange(8, dtype=np.uint16), np.zeros(8, np.uint16)
    positions, values = select(source, np.zeros(0, np.uint32), [(8, 1, 1)], 0, 0)
    _core.scatter(raw(live), 2, positions, raw(values))
    assert len(positions) == 0 and not live.any()


@pytest.mark.parametrize("indices", [[3, 3], [4, 2], [8]])
def test_indices_that_do_not_ascend_within_the_tensor_are_refused(indices):
    with pytest.raises(ValueError, match="not ascending below 8"):
        select(np.zeros(8, np.uint16), np.array(indices, np.uint32), [(8, 1, 1)], 0, 0)


def test_a_position_outside_is_refused_before_the_first_store():
    live, values = np.zeros(4, np.uint16), np.ones(2, np.uint16)
    with pytest.raises(ValueError, match="position 4 of 4"):
        _core.scatter(raw(live), 2, np.array([0, 4], np.uint32), raw(values))
    assert not live.any()


def test_a_box_in_which_an_element_has_two_places_is_refused():
    with pytest.raises(ValueError, match="overlap"):
        select(np.zeros(8, np.uint16), np.array([1], np.uint32), [(4, 1, 2), (2, 1, 1)], 0, 0)


def test_a_box_beyond_32_bits_wants_wide_positions():
    source, one = np.zeros(8, np.uint16), np.array([1], np.uint32)
    with pytest.raises(ValueError, match="64 bits"):
        select(source, one, [(8, 1, 1)], 0, 1 << 32)
    assert select(source, one, [(8, 1, 1)], 0, 1 << 32, np.uint64)[0].tolist() == [(1 << 32) + 1]


@pytest.mark.parametrize("array", [np.zeros(4, np.float32), np.zeros(8, np.uint8)[::2], np.zeros(4, np.uint16)])
def test_an_array_of_another_kind_is_refused_and_not_converted(array):
    with pytest.raises(TypeError):
        _core.scatter(array, 1, np.array([0], np.uint32), np.ones(1, np.uint8))


def test_signed_positions_and_odd_units_are_refused():
    with pytest.raises(ValueError, match="unsigned"):
        _core.scatter(np.zeros(4, np.uint8), 1, np.array([0], np.int64), np.ones(1, np.uint8))
    with pytest.raises(ValueError, match="3 bytes"):
        _core.scatter(np.zeros(6, np.uint8), 3, np.array([0], np.uint32), np.ones(3, np.uint8))
    with pytest.raises(ValueError, match="aligned"):
        _core.scatter(np.zeros(9, np.uint8)[1:], 2, np.array([0], np.uint32), np.ones(2, np.uint8))


def test_threads_scatter_to_parts_of_one_array():
    live = np.zeros(1 << 16, np.uint16)
    parts = [np.arange(start, 1 << 16, 4, dtype=np.uint32) for start in range(4)]
    arguments = [(raw(live), 2, at, raw((at % 60000).astype(np.uint16))) for at in parts]
    threads = [threading.Thread(target=_core.scatter, args=a) for a in arguments]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert np.array_equal(live, (np.arange(1 << 16) % 60000).astype(np.uint16))
