# SPDX-License-Identifier: Apache-2.0
"""Process groups of PyTorch that run on blink: torch.distributed.init_process_group("blink")."""

import datetime

import torch
import torch.distributed as dist


def _library():
    """The compiled part.

    Throws ImportError if it was built for another PyTorch than this one, in which it might crash.
    """
    again = "pip install --no-build-isolation --force-reinstall ./integrations/torch"
    present = str(torch.__version__)
    try:
        from ._built_for import torch as built_for
    except ImportError:  # built by hand, without a record
        built_for = present
    if built_for.split("+")[0] != present.split("+")[0]:
        raise ImportError(
            "blink_torch was built for PyTorch %s, and this is PyTorch %s, expected the same: build "
            "it again with %s" % (built_for, present, again)
        )
    try:
        from . import _C
    except ImportError as failure:
        raise ImportError(
            "blink_torch does not load with PyTorch %s: %s, expected a library built for it: %s"
            % (present, failure, again)
        ) from failure
    return _C


_C = _library()
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
