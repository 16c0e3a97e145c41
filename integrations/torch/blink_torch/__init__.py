# SPDX-License-Identifier: Apache-2.0
"""Process groups of PyTorch that run on blink: torch.distributed.init_process_group("blink")."""

import datetime

import torch.distributed as dist

from . import _C

name = "blink"


def make(
    store, rank, size, timeout=datetime.timedelta(minutes=30), name=name, begins_empty=False
):
    """A backend for the ranks that share `store`. All of them call it.

    name: the one that profilers show
    begins_empty: True for a group without ranks until `reconfigure`
    """
    return _C.make(store, rank, size, timeout, name, begins_empty)


def _make_from_options(options, _):
    return make(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        begins_empty=getattr(options, "enable_reconfigure", False),
    )


def register():
    """Makes the backend known to torch.distributed. Importing this package does so."""
    if hasattr(dist.Backend, name.upper()):
        return
    try:
        dist.Backend.register_backend(name, _make_from_options, extended_api=True, devices=["cpu"])
    except TypeError:  # PyTorch 1.13 knows neither options nor devices
        dist.Backend.register_backend(name, make)


register()
