# SPDX-License-Identifier: Apache-2.0
"""usage: lightgbm_test.py BLINK LIBRARY

Trains over blink and over LightGBM's own sockets, and compares the models. BLINK is the command,
LIBRARY the built library. Exits with 77 where LightGBM is not installed.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

try:
    import lightgbm  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import training_runs

blink, library = sys.argv[1:]


def check_equal_models(folder):
    for learner in ("data", "voting"):
        options = ("--learner", learner, "--rows", "4000", "--features", "30")
        mine = training_runs.over_blink(blink, library, 2, folder / "blink.txt", *options)
        theirs = training_runs.over_sockets(2, folder / "sockets.txt", *options)
        assert all(run.calls > 100 and run.bytes > 100000 for run in mine), mine[0].calls
        # Voting ranks keep sums of their own rows, so their models differ from each other.
        models = [sorted(run.model for run in runs) for runs in (mine, theirs)]
        assert models[0] == models[1] and len(set(models[0])) == (1 if learner == "data" else 2), models
        texts = [(folder / name).read_text() for name in ("blink.txt", "sockets.txt")]
        assert texts[0] == texts[1] and texts[0].count("\nTree=") == 10, learner
        print(f"{learner}: equal models, {mine[0].calls} collectives")


def check_three_ranks(folder):
    # Sums of three are rounded in another order than by sockets; the ranks agree nevertheless.
    found = training_runs.over_blink(
        blink, library, 3, folder / "three.txt", "--rows", "3000", "--features", "20"
    )
    assert len({run.model for run in found}) == 1, [run.model for run in found]
    assert (folder / "three.txt").read_text().count("\nTree=") == 10
    print("three ranks: one model")


def check_lost_rank(folder):
    program = folder / "lost.py"
    program.write_text(
        """
import os, sys, time
import lightgbm, numpy, blink_lightgbm
with blink_lightgbm.network() as ranks:
    rows = numpy.random.default_rng(ranks.rank).normal(size=(2000, 20))
    data = lightgbm.Dataset(rows, rows[:, 0] > 0, params=ranks.parameters)
    def end(state):
        if ranks.rank == 1 and state.iteration == 3:
            os._exit(5)
    try:
        lightgbm.train({"objective": "binary", "verbosity": -1, **ranks.parameters}, data, 50,
                       callbacks=[end])
    except lightgbm.basic.LightGBMError as error:
        print("failed:", error, flush=True)
"""
    )
    start = time.monotonic()
    done = subprocess.run(
        [blink, "run", "--no-labels", "--keep-going", "-n", "2", "--", sys.executable, program],
        env=training_runs.environment(library), capture_output=True, text=True, timeout=120,
    )
    assert re.search(r"failed: .*rank 1", done.stdout), done.stdout + done.stderr
    assert time.monotonic() - start < 30, "not before the deadline"
    print("lost rank:", done.stdout.strip().splitlines()[-1])


def check_no_ranks():
    alone = training_runs.environment(library)
    for name in ("BLINK_RANK", "BLINK_RANK_COUNT", "BLINK_SEGMENT"):
        alone.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", "import blink_lightgbm\nwith blink_lightgbm.network(): pass"],
        env=alone, capture_output=True, text=True, timeout=60,
    )
    assert done.returncode != 0 and "BLINK_RANK" in done.stderr, done.stderr
    print("no ranks: refused")


with tempfile.TemporaryDirectory() as temporary:
    where = pathlib.Path(temporary)
    check_equal_models(where)
    check_three_ranks(where)
    check_lost_rank(where)
    check_no_ranks()
