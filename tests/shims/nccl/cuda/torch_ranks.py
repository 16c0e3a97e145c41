# SPDX-License-Identifier: Apache-2.0
"""PyTorch's processes on GPU 0, over the libnccl.so.2 that LD_PRELOAD names.

usage: LD_PRELOAD=.../libnccl.so.2 python3 torch_ranks.py [PROCESSES]

Collectives beside their expected results, then the losses of DistributedDataParallel beside those
of one process. Exit status 0 if all are right, 77 without a GPU or without PyTorch.
"""
import datetime
import os
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

GPU = "cuda:0"
STEPS = 30
BATCH = 64


def make_network():
    torch.manual_seed(1)
    layers = torch.nn
    return layers.Sequential(layers.Linear(64, 2048), layers.ReLU(), layers.Linear(2048, 2048),
                             layers.ReLU(), layers.Linear(2048, 10)).to(GPU)


def make_batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(BATCH, 64, generator=generator)
    return inputs.to(GPU), inputs[:, :10].argmax(1).to(GPU)


def train(network, shares, mean_over_ranks):
    """Losses of each step; `shares`: the ranks whose batches this process sees."""
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        inputs, labels = (torch.cat(parts) for parts in zip(*(make_batch(step, k) for k in shares)))
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(inputs), labels)
        loss.backward()
        optimiser.step()
        losses.append(mean_over_ranks(loss.detach().clone()).item())
    return losses


class Rank:
    def __init__(self, rank, processes):
        self.rank, self.processes, self.is_right = rank, processes, True

    def tell(self, name, is_right):
        self.is_right &= bool(is_right)
        if self.rank == 0 or not is_right:
            print(f"rank {self.rank}, {name}: {'right' if is_right else 'WRONG'}", flush=True)

    def full(self, count, value, kind=torch.float32):
        return torch.full((count,), value, dtype=kind, device=GPU)

    def reductions(self):
        n = self.processes
        for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32,
                     torch.int64, torch.uint8, torch.int8):
            is_right = True
            for count in (1, 1000, 1 << 20):
                values = self.full(count, self.rank + 1, kind)
                dist.all_reduce(values)
                is_right &= bool((values == n * (n + 1) // 2).all())
            self.tell(f"all_reduce of {kind}", is_right)
        product = 1.0
        for k in range(1, n + 1):
            product *= k
        for operation, expected in ((dist.ReduceOp.MAX, n), (dist.ReduceOp.MIN, 1),
                                    (dist.ReduceOp.PRODUCT, product),
                                    (dist.ReduceOp.AVG, (n + 1) / 2)):
            values = self.full(1000, self.rank + 1)
            dist.all_reduce(values, operation)
            self.tell(f"all_reduce {operation}", (values == expected).all())
        values = self.full(5000, self.rank + 1)
        dist.reduce(values, 0)
        self.tell("reduce", self.rank != 0 or (values == n * (n + 1) / 2).all())
        block = torch.empty(3000, device=GPU)
        dist.reduce_scatter_tensor(block, torch.arange(n * 3000, device=GPU).float())
        mine = torch.arange(self.rank * 3000, (self.rank + 1) * 3000, device=GPU)
        self.tell("reduce_scatter_tensor", (block == n * mine).all())

    def moves(self):
        n, rank = self.processes, self.rank
        values = self.full(5000, rank)
        dist.broadcast(values, n - 1)
        self.tell("broadcast", (values == n - 1).all())
        blocks = torch.empty(n, 3000, device=GPU)
        dist.all_gather_into_tensor(blocks, self.full(3000, rank))
        self.tell("all_gather_into_tensor", all((blocks[k] == k).all() for k in range(n)))
        unequal = [torch.empty(k + 7, device=GPU) for k in range(n)]
        dist.all_gather(unequal, self.full(rank + 7, rank))
        self.tell("all_gather of unequal sizes", all((unequal[k] == k).all() for k in range(n)))
        blocks = torch.empty(n, 100, device=GPU)
        dist.all_to_all_single(blocks, torch.arange(n * 100, device=GPU).float() + 1000 * rank)
        mine = torch.arange(rank * 100, rank * 100 + 100, device=GPU)
        self.tell("all_to_all_single",
                  all((blocks[k] == 1000 * k + mine).all() for k in range(n)))
        received = torch.empty(4096, device=GPU)
        for work in dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, self.full(4096, rank), (rank + 1) % n),
                 dist.P2POp(dist.irecv, received, (rank - 1) % n)]):
            work.wait()
        self.tell("send and receive", (received == (rank - 1) % n).all())
        objects = [None] * n
        dist.all_gather_object(objects, {"rank": rank})
        self.tell("all_gather_object", [each["rank"] for each in objects] == list(range(n)))
        dist.barrier(device_ids=[0])
        self.tell("barrier", True)

    def times(self):
        for count in (1 << 8, 1 << 14, 1 << 18, 25 << 18):
            values = torch.zeros(count, device=GPU)
            dist.all_reduce(values)
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(10):
                dist.all_reduce(values)
            torch.cuda.synchronize()
            if self.rank == 0:
                seconds = (time.perf_counter() - begin) / 10
                print(f"all_reduce of {4 * count} B: {1e6 * seconds:.0f} us", flush=True)

    def training(self):
        def mean(loss):
            dist.all_reduce(loss, dist.ReduceOp.AVG)
            return loss

        parallel = torch.nn.parallel.DistributedDataParallel(make_network(), device_ids=[0])
        losses = train(parallel, [self.rank], mean)
        if self.rank == 0:
            alone = train(make_network(), range(self.processes), lambda loss: loss)
            largest = max(abs(a - b) for a, b in zip(losses, alone))
            print(f"losses from {losses[0]:.6f} to {losses[-1]:.6f}, at most {largest:.1e} beside "
                  "those of one process", flush=True)
            self.tell("losses", largest < 1e-3 and losses[-1] < losses[0])


def run(rank, processes, meeting):
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank,
                            world_size=processes, timeout=datetime.timedelta(seconds=30))
    all_parts = Rank(rank, processes)
    all_parts.reductions()
    all_parts.moves()
    all_parts.times()
    all_parts.training()
    dist.destroy_process_group()
    sys.exit(0 if all_parts.is_right else 1)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU")
        sys.exit(77)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(run, args=(count, os.path.join(folder, "meeting")),
                                              nprocs=count, start_method="spawn")
