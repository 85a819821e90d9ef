"""The combined CRC-32C of many records, with NumPy.

A CRC is linear: the XOR of the CRCs of records is the CRC of their XOR, apart from the initial state. So a batch of
records costs one XOR of all their bytes and one CRC of the longest. Damage of one record always changes the result, as
its own CRC would; only equal damage of two records at equal distances from their ends stays undetected.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from operator import xor
from typing import Final

import numpy as np
import numpy.typing as npt

from tfdist_trainer.data.framing import TABLE

_BLOCK: Final = 512
"""Bytes of a block. The table of contributions has 1 KiB for each, and should stay in the processor's cache."""

_INITIAL: Final = 4
"""Bytes at the start of a record that the initial state inverts."""

Octets = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]


def combined_crc32c(records: Sequence[Octets]) -> int:
    """Return the XOR of the CRC-32C of each of `records`; 0 if there are none."""
    by_size = defaultdict[int, list[Octets]](list)
    # By length: records of one length are combined by one operation.
    for record in records:
        by_size[len(record)].append(record)
    total = np.zeros(max(by_size, default=0), np.uint8)
    state = 0
    for size, group in by_size.items():
        if size < _INITIAL:
            state ^= reduce(xor, map(_crc32c_of_short, group))
            continue
        part = total[len(total) - size :]
        part ^= np.bitwise_xor.reduce(np.stack(group)) if len(group) > 1 else group[0]
        # The initial state of an even number of records cancels out.
        if len(group) % 2:
            part[:_INITIAL] ^= 0xFF
            state ^= 0xFFFFFFFF
    return state ^ _linear(total)


def _crc32c_of_short(record: Octets) -> int:
    state = 0xFFFFFFFF
    for octet in record.tolist():
        state = int(TABLE[(state ^ octet) & 0xFF]) ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def _linear(octets: Octets) -> int:
    """Return the CRC of `octets` from the state zero, which zeros at the start do not change."""
    padded = np.concatenate([np.zeros(-len(octets) % _BLOCK, np.uint8), octets]).reshape(-1, _BLOCK)
    blocks = np.bitwise_xor.reduce(_CONTRIBUTIONS[_POSITIONS, padded], axis=1)
    state = 0
    for block in blocks.tolist():
        shifted = 0
        for position, octet in enumerate(state.to_bytes(4, "little")):
            shifted ^= int(_CONTRIBUTIONS[position, octet])
        state = shifted ^ block
    return state


def _contributions() -> Words:
    """Return the contribution of each byte at each position of a block to the CRC at its end, [position, byte]."""
    rows = [TABLE]
    for _ in range(1, _BLOCK):
        rows.append(TABLE[rows[-1] & np.uint32(0xFF)] ^ (rows[-1] >> np.uint32(8)))
    return np.stack(rows[::-1])


_CONTRIBUTIONS: Final = _contributions()
_POSITIONS: Final = np.arange(_BLOCK)
