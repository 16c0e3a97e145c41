# SPDX-License-Identifier: Apache-2.0
"""Distributed training of an unchanged LightGBM whose ranks talk over blink.

    import lightgbm, blink_lightgbm

    with blink_lightgbm.network() as ranks:
        data = lightgbm.Dataset(rows[ranks.rank :: ranks.count], labels[ranks.rank :: ranks.count],
                                params=ranks.parameters)
        model = lightgbm.train({"objective": "binary", **ranks.parameters}, data)

Start it with `blink run -n 4 -- python3 train.py`.
"""

import contextlib
import ctypes
import os
import pathlib

import lightgbm.basic

__all__ = ["Ranks", "network"]


class Ranks:
    """The ranks of a network: this one is `rank` of `count`."""

    def __init__(self, library):
        self._library = library
        self.rank = library.blink_lightgbm_rank()
        self.count = library.blink_lightgbm_rank_count()

    @property
    def parameters(self):
        """The parameters of LightGBM that every rank needs. Each rank has rows of its own."""
        return {"tree_learner": "data", "num_machines": self.count, "pre_partition": True}

    @property
    def calls(self):
        """Collectives so far."""
        return self._library.blink_lightgbm_calls()

    @property
    def bytes(self):
        """The bytes of their whole buffers."""
        return self._library.blink_lightgbm_bytes()


def _library():
    here = pathlib.Path(__file__).resolve().parent
    path = os.environ.get("BLINK_LIGHTGBM_LIBRARY", here / "libblink_lightgbm.so")
    library = ctypes.CDLL(os.fspath(path))
    library.blink_lightgbm_error.restype = ctypes.c_char_p
    library.blink_lightgbm_reduce_scatter.restype = ctypes.c_void_p
    library.blink_lightgbm_all_gather.restype = ctypes.c_void_p
    library.blink_lightgbm_calls.restype = ctypes.c_uint64
    library.blink_lightgbm_bytes.restype = ctypes.c_uint64
    return library


@contextlib.contextmanager
def network():
    """Joins the ranks that the environment names, for data sets and training within the block.

    Data sets are made within the block too, because ranks agree on the bins of features. Raises
    RuntimeError if the ranks do not meet. A failure in training is a lightgbm.basic.LightGBMError
    on all ranks.
    """
    library = _library()
    if library.blink_lightgbm_join() != 0:
        raise RuntimeError(library.blink_lightgbm_error().decode())
    ranks = Ranks(library)
    try:
        lightgbm.basic._safe_call(
            lightgbm.basic._LIB.LGBM_NetworkInitWithFunctions(
                ctypes.c_int(ranks.count),
                ctypes.c_int(ranks.rank),
                ctypes.c_void_p(library.blink_lightgbm_reduce_scatter()),
                ctypes.c_void_p(library.blink_lightgbm_all_gather()),
            )
        )
        yield ranks
    finally:
        lightgbm.basic._LIB.LGBM_NetworkFree()
        library.blink_lightgbm_leave()
