# SPDX-License-Identifier: Apache-2.0
"""dist.all_reduce on blink beside gloo, in turn in the same processes. Medians and the fastest, in
microseconds, and gloo's over blink's.

    PYTHONPATH=build/dev/integrations/torch python3 benchmarks/torch/all_reduce.py [RANKS]

As one rank of several hosts (scripts/bench_torch_hosts): all_reduce.py RANKS RANK STORE, where STORE is
a file that all of them reach.
"""

import multiprocessing
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist

sizes = [(1 << 10, 300), (64 << 10, 200), (1 << 20, 60), (25 << 20, 8)]
rounds = 5


def measure(rank, size, path):
    import blink_torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=size)
    groups = {"gloo": dist.group.WORLD, "blink": dist.new_group(backend="blink")}
    if rank == 0:
        print("%d ranks, PyTorch %s, %d cores, load %.1f" % (
            size, torch.__version__, os.cpu_count(), os.getloadavg()[0]))
        print("%10s %22s %22s %14s" % ("bytes", "blink median, fastest", "gloo median, fastest",
                                       "gloo / blink"))
    for count, calls in sizes:
        data = torch.ones(count // 4)
        times = {name: [] for name in groups}
        for _ in range(rounds):
            for name, group in groups.items():
                for call in range(calls):
                    data.fill_(1)
                    begin = time.perf_counter()
                    dist.all_reduce(data, group=group)
                    if call > 0:
                        times[name].append(time.perf_counter() - begin)
                assert data[-1].item() == size
                dist.barrier()
        if rank == 0:
            cells = {n: (sorted(t)[len(t) // 2] * 1e6, min(t) * 1e6) for n, t in times.items()}
            print("%10d %12.1f %9.1f %12.1f %9.1f %7.1f %6.1f" % (
                count, *cells["blink"], *cells["gloo"],
                cells["gloo"][0] / cells["blink"][0], cells["gloo"][1] / cells["blink"][1]),
                flush=True)
    dist.barrier()


def main():
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    if len(sys.argv) > 3:
        return measure(int(sys.argv[2]), size, sys.argv[3])
    path = os.path.join(tempfile.mkdtemp(), "store")
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=measure, args=(r, size, path)) for r in range(size)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()


if __name__ == "__main__":
    main()
