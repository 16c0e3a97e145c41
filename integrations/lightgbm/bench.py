# SPDX-License-Identifier: Apache-2.0
"""usage: bench.py BLINK LIBRARY [--ranks N] [--pairs N] [options of train.py]

Trains over LightGBM's sockets and over blink in turn, several pairs, and prints a table. Seconds are
those of the slowest rank.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tests"))
import training_runs

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("blink")
parser.add_argument("library")
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--pairs", type=int, default=5)
arguments, options = parser.parse_known_args()

parts = {"bins": "bins", "training": "training", "on_core": "training, seconds on a core"}
seconds = {(name, part): [] for name in ("sockets", "blink") for part in parts}
with tempfile.TemporaryDirectory() as temporary:
    model = pathlib.Path(temporary) / "model.txt"
    for pair in range(arguments.pairs):
        sockets = training_runs.over_sockets(arguments.ranks, model, *options)
        mine = training_runs.over_blink(
            arguments.blink, arguments.library, arguments.ranks, model, *options
        )
        models = {run.model for run in sockets + mine}
        assert len(models) == 1 or arguments.ranks > 2, models
        for name, runs in (("sockets", sockets), ("blink", mine)):
            for part in parts:
                seconds[name, part].append(max(getattr(run, part) for run in runs))
        print(
            f"pair {pair + 1}: training {seconds['sockets', 'training'][-1]:.2f} s by sockets, "
            f"{seconds['blink', 'training'][-1]:.2f} s by blink, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
print(f"\n{mine[0].calls} collectives, {mine[0].bytes / 1e6:.0f} MB; model {mine[0].model}\n")
print("| median s | sockets | blink | times faster |\n| --- | --- | --- | --- |")
for part, title in parts.items():
    theirs, own = (statistics.median(seconds[name, part]) for name in ("sockets", "blink"))
    print(f"| {title} | {theirs:.2f} | {own:.2f} | {theirs / own:.2f} |")
