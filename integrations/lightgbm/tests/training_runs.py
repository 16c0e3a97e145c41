# SPDX-License-Identifier: Apache-2.0
"""Runs of train.py over blink and over LightGBM's sockets, for the test and the benchmark."""

import os
import pathlib
import re
import socket
import subprocess
import sys

home = pathlib.Path(__file__).resolve().parent.parent
line = re.compile(
    r"bins ([0-9.]+) s, training ([0-9.]+) s of which ([0-9.]+) s on a core, "
    r"(\d+) collectives, (\d+) bytes, model ([0-9a-f]{16})"
)


class Run:
    """What one rank printed."""

    def __init__(self, match):
        self.bins, self.training, self.on_core = (float(each) for each in match[:3])
        self.calls, self.bytes, self.model = int(match[3]), int(match[4]), match[5]


def environment(library):
    return {
        **os.environ,
        "BLINK_LIGHTGBM_LIBRARY": str(library),
        "PYTHONPATH": str(home),
        "BLINK_DEADLINE": "60",
    }


def over_blink(blink, library, ranks, model, *options):
    """The ranks' runs, in any order."""
    done = subprocess.run(
        [blink, "run", "--no-labels", "-n", str(ranks), "--", sys.executable, home / "train.py"]
        + [model, *options],
        env=environment(library), capture_output=True, text=True, timeout=600,
    )
    found = line.findall(done.stdout)
    assert done.returncode == 0 and len(found) == ranks, done.stdout + done.stderr
    return [Run(match) for match in found]


def free_ports(count):
    """The first of free ports in a row."""
    for first in range(20000 + os.getpid() % 20000, 60000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for offset, each in enumerate(sockets):
                each.bind(("127.0.0.1", first + offset))
            return first
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise RuntimeError("no free ports")


def over_sockets(ranks, model, *options):
    """The ranks' runs, by rank."""
    port = free_ports(ranks)
    processes = [
        subprocess.Popen(
            [sys.executable, home / "train.py", model, "--sockets", str(port)]
            + ["--rank", str(rank), "--ranks", str(ranks), *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(ranks)
    ]
    texts = [process.communicate(timeout=600)[0] for process in processes]
    found = [match for text in texts for match in line.findall(text)]
    assert len(found) == ranks, texts
    return [Run(match) for match in found]
