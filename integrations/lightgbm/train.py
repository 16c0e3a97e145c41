# SPDX-License-Identifier: Apache-2.0
"""Trains on rows that the ranks share, and writes the model.

    blink run -n 2 -- python3 train.py model.txt [--rows N] [--features N] [--rounds N]
    python3 train.py model.txt --sockets PORT --rank R --ranks N    the same over LightGBM's sockets

Rows are made by a seed. Rank 0 writes the model. Every rank prints its seconds and its model's hash.
"""

import argparse
import contextlib
import ctypes
import hashlib
import time

import lightgbm
import numpy


class SocketRanks:
    """LightGBM's own network, on ports of this host."""

    calls = bytes = 0

    def __init__(self, rank, count, port):
        self.rank, self.count, self._port = rank, count, port

    @property
    def parameters(self):
        return {"tree_learner": "data", "num_machines": self.count, "pre_partition": True}

    @contextlib.contextmanager
    def network(self):
        machines = ",".join(f"127.0.0.1:{self._port + rank}" for rank in range(self.count))
        library = lightgbm.basic._LIB
        lightgbm.basic._safe_call(
            library.LGBM_NetworkInit(
                machines.encode(),
                ctypes.c_int(self._port + self.rank),
                ctypes.c_int(2),
                ctypes.c_int(self.count),
            )
        )
        try:
            yield self
        finally:
            library.LGBM_NetworkFree()


def made_rows(rows, features):
    random = numpy.random.default_rng(7)
    data = random.normal(size=(rows, features))
    label = (data[:, 0] + data[:, 1] * data[:, 2] + random.normal(size=rows) > 0).astype(float)
    return data, label


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--learner", choices=["data", "voting"], default="data")
    parser.add_argument("--sockets", type=int, metavar="PORT", help="use LightGBM's own network")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--ranks", type=int)
    arguments = parser.parse_args()

    if arguments.sockets:
        network = SocketRanks(arguments.rank, arguments.ranks, arguments.sockets).network()
    else:
        import blink_lightgbm

        network = blink_lightgbm.network()

    rows, labels = made_rows(arguments.rows, arguments.features)
    with network as ranks:
        mine = slice(ranks.rank, None, ranks.count)
        parameters = {
            "objective": "binary",
            "num_leaves": arguments.leaves,
            "num_threads": 1,
            "verbosity": -1,
            "deterministic": True,
            **ranks.parameters,
            "tree_learner": arguments.learner,
        }
        start = time.perf_counter()
        data = lightgbm.Dataset(rows[mine], labels[mine], params=parameters).construct()
        binned = time.perf_counter()
        binned_cpu = time.process_time()
        model = lightgbm.train(parameters, data, num_boost_round=arguments.rounds)
        end = time.perf_counter()
        end_cpu = time.process_time()
        # The parameters at the end of the text name the network.
        text = model.model_to_string().split("\nparameters:")[0]
        print(
            f"bins {binned - start:.3f} s, training {end - binned:.3f} s of which "
            f"{end_cpu - binned_cpu:.3f} s on a core, {ranks.calls} collectives, {ranks.bytes} bytes, "
            f"model {hashlib.sha256(text.encode()).hexdigest()[:16]}",
            flush=True,
        )
    if ranks.rank == 0:
        with open(arguments.model, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
