# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training on blink and on gloo: equal losses, and equal bits of any number of ranks
if blink keeps the order of the ranks.

    PYTHONPATH=... python training_test.py
"""

import multiprocessing
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

steps = 60


def data():
    """Digits, if scikit-learn is there; else points of two spirals."""
    try:
        from sklearn.datasets import load_digits

        digits = load_digits()
        return torch.tensor(digits.data).float() / 16, torch.tensor(digits.target), 10
    except ImportError:
        turns = torch.linspace(0, 12, 900)
        sides = torch.arange(900) % 2
        sign = 2.0 * sides - 1
        points = torch.stack([sign * turns.cos() * turns, sign * turns.sin() * turns], 1) / 12
        return points, sides, 2


def train(backend, rank, size, path, pipe):
    torch.set_num_threads(1)
    if backend == "blink":
        import blink_torch  # noqa: F401
    dist.init_process_group(backend, init_method="file://" + path, rank=rank, world_size=size)
    inputs, targets, classes = data()
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(inputs.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, classes)
    )
    model = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for step in range(steps):
        rows = torch.arange(64) * 7 + step * 64
        mine = rows[rank::size] % len(inputs)
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs[mine]), targets[mine])
        loss.backward()
        optimiser.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        losses.append(whole.item() / size)
    right = (model(inputs).argmax(1) == targets).float().mean().item()
    total = sum(p.double().abs().sum().item() for p in model.parameters())
    pipe.send((losses, right, total))
    dist.destroy_process_group()


def result_of(backend, size):
    path = os.path.join(tempfile.mkdtemp(), "store")
    context = multiprocessing.get_context("fork")
    ranks = []
    for rank in range(size):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=train, args=(backend, rank, size, path, theirs))
        process.start()
        theirs.close()
        ranks.append((process, ours))
    results = [pipe.recv() for _, pipe in ranks]
    for process, _ in ranks:
        process.join()
    if any(each != results[0] for each in results):
        sys.exit("%s, %d ranks: ranks end with other models" % (backend, size))
    return results[0]


def main():
    failed = False
    for size in (1, 2, 4):
        losses, right, total = result_of("blink", size)
        expected, _, gloo_total = result_of("gloo", size)
        apart = max(abs(a - b) for a, b in zip(losses, expected))
        print(
            "%d ranks: loss %.6f after %d steps, gloo %.6f, furthest apart %.1e; %.4f right; sum of "
            "weights %.9f, gloo %.9f"
            % (size, losses[-1], steps, expected[-1], apart, right, total, gloo_total)
        )
        failed |= apart > 1e-4 or losses[-1] > 0.7 * losses[0]
        if size == 2:
            failed |= losses != expected  # a + b has one order
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
