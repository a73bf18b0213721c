"""Sizes as people write them."""

import pytest
from shmbench.cli.sizes import parse_size, sweep


@pytest.mark.parametrize(("text", "size"), [("8", 8), ("4K", 4096), ("4k", 4096), ("64M", 64 << 20), ("1G", 1 << 30)])
def test_sizes_are_powers_of_1024(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "0", "0M", "-8", "1.5M", "8 M", "8KiB", "8T", "٣"])
def test_what_is_no_size_is_named(text):
    with pytest.raises(ValueError) as caught:
        parse_size(text)
    assert repr(text) in str(caught.value)


def test_sweep_multiplies_or_adds_and_includes_the_end():
    assert list(sweep(8, 512, step=None, factor=8)) == [8, 64, 512]
    assert list(sweep(8, 511, step=None, factor=8)) == [8, 64]
    assert list(sweep(100, 300, step=100, factor=8)) == [100, 200, 300]
    assert list(sweep(8, 8, step=None, factor=2)) == [8]
