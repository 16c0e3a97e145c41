# SPDX-License-Identifier: Apache-2.0
"""Every collective of torch.distributed on blink against a loop over the ranks, and its errors.

    PYTHONPATH=... [BLINK_TEST_HOSTS=2] python collectives_test.py [PART OF A TEST'S NAME [TIMES]]
"""

import ctypes
import datetime
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

import blink_torch

limit = datetime.timedelta(seconds=20)
over_hosts = os.environ.get("BLINK_TEST_HOSTS", "1") != "1"
integers = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
floats = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def value(rank, k, dtype):
    """Small numbers whose sums and products every type holds."""
    number = (rank + 2 * k) % 3 + 1
    return number if dtype != torch.bool else number > 1


def tensor_of(rank, count, dtype):
    return torch.tensor([value(rank, k, dtype) for k in range(count)], dtype=dtype)


def all_of(size, count, dtype):
    return [tensor_of(r, count, dtype) for r in range(size)]


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def expect_equal(a, b, text):
    expect(torch.equal(a, b), "%s: %s, expected %s" % (text, a, b))


def folded(tensors, combine):
    result = tensors[0]
    for each in tensors[1:]:
        result = combine(result, each)
    return result


operations = {
    dist.ReduceOp.SUM: lambda a, b: a + b,
    dist.ReduceOp.PRODUCT: lambda a, b: a * b,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}


def reductions(rank, size):
    for dtype in integers + floats:
        for op, combine in operations.items():
            if dtype in floats and op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
                continue
            for count in (0, 7, 3000):
                name = "%s of %d %s" % (op, count, dtype)
                expected = folded(all_of(size, count, dtype), combine)
                data = tensor_of(rank, count, dtype)
                dist.all_reduce(data, op=op)
                expect_equal(data, expected, "all_reduce " + name)
                root = count % size
                data = tensor_of(rank, count, dtype)
                dist.reduce(data, root, op=op)
                if rank == root:
                    expect_equal(data, expected, "reduce " + name)
                segments = [tensor_of(rank + s, count, dtype) for s in range(size)]
                got = torch.empty(count, dtype=dtype)
                dist.reduce_scatter(got, segments, op=op)
                own = folded([tensor_of(r + rank, count, dtype) for r in range(size)], combine)
                expect_equal(got, own, "reduce_scatter " + name)


def truth_values(rank, size):
    data = torch.tensor([rank == 0, True, False])
    dist.all_reduce(data, op=dist.ReduceOp.SUM)
    expect_equal(data, torch.tensor([True, True, False]), "sum of bool")
    data = torch.tensor([rank == 0, True, False])
    dist.all_reduce(data, op=dist.ReduceOp.PRODUCT)
    expect_equal(data, torch.tensor([size == 1, True, False]), "product of bool")


def averages(rank, size):
    average = getattr(dist.ReduceOp, "AVG", None)
    if average is None:
        return
    data = torch.full((1000,), float(rank))
    dist.all_reduce(data, op=average)
    expect(abs(data[7].item() - (size - 1) / 2) < 1e-6, "average: %s" % data[7])


def copies(rank, size):
    for dtype in integers + floats + [torch.bool, torch.complex64]:
        for count in (0, 9, 3000):
            for root in range(size):
                data = tensor_of(rank, count, dtype)
                dist.broadcast(data, root)
                expect_equal(data, tensor_of(root, count, dtype), "broadcast")
            every = all_of(size, count, dtype)
            lists = [torch.empty(count, dtype=dtype) for _ in range(size)]
            dist.all_gather(lists, tensor_of(rank, count, dtype))
            for r in range(size):
                expect_equal(lists[r], every[r], "all_gather")
            root = count % size
            lists = [torch.empty(count, dtype=dtype) for _ in range(size)]
            dist.gather(tensor_of(rank, count, dtype), lists if rank == root else None, root)
            if rank == root:
                for r in range(size):
                    expect_equal(lists[r], every[r], "gather")
            got = torch.empty(count, dtype=dtype)
            dist.scatter(got, every if rank == root else None, root)
            expect_equal(got, every[rank], "scatter")
            outputs = [torch.empty(count, dtype=dtype) for _ in range(size)]
            dist.all_to_all(outputs, [tensor_of(rank + 10 * r, count, dtype) for r in range(size)])
            for r in range(size):
                expect_equal(outputs[r], tensor_of(r + 10 * rank, count, dtype), "all_to_all")


def unequal_blocks(rank, size):
    """Rank r sends r + s elements to rank s."""
    sends = [rank + s for s in range(size)]
    receives = [r + rank for r in range(size)]
    given = torch.arange(sum(sends)) + 1000 * rank
    got = torch.empty(sum(receives), dtype=torch.int64)
    dist.all_to_all_single(got, given, receives, sends)
    expected = []
    for r in range(size):
        begin = sum(r + s for s in range(rank))
        expected.append(torch.arange(begin, begin + r + rank) + 1000 * r)
    expect_equal(got, torch.cat(expected), "all_to_all_single")
    lists = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(lists, torch.full((rank + 1,), float(rank)))
    for r in range(size):
        expect_equal(lists[r], torch.full((r + 1,), float(r)), "all_gather of unequal tensors")


def single_tensors(rank, size):
    gathered = torch.empty(size * 6)
    into = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
    into(gathered, torch.full((6,), float(rank)))
    expect_equal(gathered, torch.arange(float(size)).repeat_interleave(6), "all_gather_into_tensor")
    scattered = torch.empty(5)
    scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    scatter(scattered, torch.arange(5.0 * size))
    expect_equal(
        scattered, size * torch.arange(5.0 * rank, 5.0 * (rank + 1)), "reduce_scatter_tensor"
    )


def strided_tensors(rank, size):
    data = torch.full((6, 8), float(rank + 1)).t()
    dist.all_reduce(data)
    expect(bool((data == size * (size + 1) / 2).all()), "all_reduce of a transposed tensor")
    columns = torch.zeros(4, 2 * size)
    dist.all_gather([columns[:, 2 * r] for r in range(size)], torch.full((4,), float(rank + 1)))
    for r in range(size):
        expect(bool((columns[:, 2 * r] == r + 1).all()), "all_gather into columns")
        expect(bool((columns[:, 2 * r + 1] == 0).all()), "all_gather beside columns")
    leaf = torch.ones(3, requires_grad=True)
    dist.all_reduce(leaf)
    expect(bool((leaf == size).all()), "all_reduce of a tensor with gradients")


def started_calls(rank, size):
    data = [torch.full((100 * k,), float(rank + 1)) for k in range(1, 20)]
    works = [dist.all_reduce(each, async_op=True) for each in data]
    for work in reversed(works):
        work.wait()
    expect(all(bool((each == size * (size + 1) / 2).all()) for each in data), "started all_reduce")
    work = dist.all_reduce(torch.ones(3), async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    work.wait()
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    doubled = future.then(lambda f: 2 * f.value()[0])
    expect_equal(doubled.wait(), torch.full((3,), 2.0 * size), "a future")


def threads_wait(rank, size):
    import threading

    data = [torch.full((1000,), float(rank + 1)) for _ in range(40)]
    works = [dist.all_reduce(each, async_op=True) for each in data]
    threads = [threading.Thread(target=work.wait) for work in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    expect(all(bool((each == size * (size + 1) / 2).all()) for each in data), "waits of threads")


def messages(rank, size):
    if size < 2:
        return
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 100000):
        got = torch.empty(count)
        send = dist.isend(torch.full((count,), float(rank)), right, tag=count)
        receive = dist.irecv(got, left, tag=count)
        receive.wait()
        send.wait()
        expect_equal(got, torch.full((count,), float(left)), "a message of %d" % count)
    # Tags in another order, and blocking sends first.
    one, two = torch.empty(1), torch.empty(1)
    dist.send(torch.tensor([1.0]), right, tag=1)
    dist.send(torch.tensor([2.0]), right, tag=2)
    dist.recv(two, left, tag=2)
    dist.recv(one, left, tag=1)
    expect(one.item() == 1 and two.item() == 2, "messages by tag")
    if rank == 0:
        sources = set()
        for _ in range(size - 1):
            got = torch.empty(2)
            source = dist.recv(got)
            expect(got[0].item() == source, "a message from any rank: %s from %s" % (got, source))
            sources.add(source)
        expect(sources == set(range(1, size)), "messages from all ranks")
    else:
        dist.send(torch.full((2,), float(rank)), 0)
    dist.barrier()


def sparse_tensors(rank, size):
    places = torch.tensor([[rank, size]])
    values = torch.tensor([1.0, rank + 1.0])
    data = torch.sparse_coo_tensor(places, values, (size + 1,))
    dist.all_reduce(data)
    expected = torch.ones(size + 1)
    expected[size] = size * (size + 1) / 2
    expect_equal(data.to_dense(), expected, "all_reduce of sparse tensors")


def sub_groups(rank, size):
    if size < 3:
        return
    some = dist.new_group([0, size - 1])
    data = torch.tensor([float(rank)])
    if rank in (0, size - 1):
        dist.all_reduce(data, group=some)
        expect(data.item() == size - 1, "all_reduce of a group")
    dist.barrier()


def objects(rank, size):
    every = [None] * size
    dist.all_gather_object(every, {"rank": rank})
    expect(every == [{"rank": r} for r in range(size)], "all_gather_object")


def monitored_barriers(rank, size):
    backend = blink_torch.make(
        dist.PrefixStore("monitored", dist.distributed_c10d._get_default_store()), rank, size, limit
    )
    backend.monitored_barrier(datetime.timedelta(seconds=5))
    if size > 1 and rank != 1:
        try:
            backend.monitored_barrier(datetime.timedelta(milliseconds=300))
        except RuntimeError as failure:
            expect("Rank 1 failed" in str(failure) or rank > 0, str(failure))
        else:
            expect(False, "no error")
    dist.barrier()


def wrong_arguments(rank, size):
    def refused(call, text):
        try:
            call()
        except (RuntimeError, ValueError, TypeError) as failure:
            expect(text in str(failure), "%s lacks '%s'" % (failure, text))
        else:
            expect(False, "no error with '%s'" % text)

    refused(lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BXOR), "have no bit_xor")
    refused(
        lambda: dist.all_gather([torch.empty(2)] * size, torch.ones(3)), "elements"
    )
    data = torch.ones(3)
    dist.all_reduce(data)
    expect(data[0].item() == size, "a call after refused ones")


def counts_that_differ(rank, size):
    if size < 2:
        return
    try:
        dist.all_reduce(torch.ones(10 + rank))
    except RuntimeError as failure:
        expect("all_reduce" in str(failure) and "rank" in str(failure), str(failure))
    else:
        expect(False, "no error for counts that differ")
    try:
        dist.all_reduce(torch.ones(10))
    except RuntimeError:
        return
    expect(False, "no error after a failure")


def names_lost(rank, text):
    return "rank %d" % rank in text and ("died" in text or "is lost" in text)


def a_rank_that_dies(rank, size):
    if size < 2:
        return
    dist.all_reduce(torch.ones(10))
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.time()
    try:
        while True:
            dist.all_reduce(torch.ones(100000))
    except RuntimeError as failure:
        expect(names_lost(size - 1, str(failure)), str(failure))
    expect(time.time() - begin < 5, "a death was found after %f s" % (time.time() - begin))


def a_rank_that_stays_away(rank, size):
    if size < 2:
        return
    if rank == 1:
        time.sleep(2.5)
        return
    begin = time.time()
    work = dist.distributed_c10d._get_default_group()
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(milliseconds=500)
    try:
        work.allreduce([torch.ones(4)], options).wait()
    except RuntimeError as failure:
        expect("rank 1" in str(failure) and "all_reduce" in str(failure), str(failure))
    else:
        expect(False, "no error for a rank that stays away")
    expect(time.time() - begin < 2, "it took %f s" % (time.time() - begin))


def reconfigured(backend, number, handles):
    options = torch._C._distributed_c10d.ReconfigureOptions()
    options.uuid = number
    options.handles = handles
    options.timeout = datetime.timedelta(seconds=10)
    backend.reconfigure(options).wait()


def a_new_rank_joins(rank, size):
    """The last rank is not in the first group, and in the second."""
    if size < 2 or not hasattr(torch._C._distributed_c10d, "ReconfigureOptions"):
        return
    store = dist.PrefixStore("growing", dist.distributed_c10d._get_default_store())
    is_new = rank == size - 1
    if is_new:
        backend = blink_torch.make(store, 0, 1, limit, begins_empty=True)
        try:
            backend.allreduce([torch.ones(1)]).wait()
        except RuntimeError as failure:
            expect("the group has no ranks" in str(failure), str(failure))
        else:
            expect(False, "a call of a group without ranks")
    else:
        backend = blink_torch.make(store, rank, size - 1, limit)
        data = torch.ones(3)
        backend.allreduce([data]).wait()
        expect(data[0].item() == size - 1, "the sum of the first group")
    store.set("handle/%d" % rank, backend.get_reconfigure_handle())
    reconfigured(backend, 1, [store.get("handle/%d" % r).decode() for r in range(size)])
    data = torch.full((1000,), float(rank))
    backend.allreduce([data]).wait()
    expect(bool((data == size * (size - 1) / 2).all()), "the sum of the second group")
    dist.barrier()


def a_future_may_wait_for_later_calls(rank, size):
    """As PowerSGD's hook does: a function of a future starts a call and waits for it."""

    def again(future, times):
        data = future.value()[0]
        if times == 0:
            return data
        work = dist.all_reduce(data, async_op=True)
        return work.get_future().then(lambda f: again(f, times - 1)).wait()

    data = torch.ones(4)
    first = dist.all_reduce(data, async_op=True).get_future()
    result = first.then(lambda f: again(f, 3)).wait()
    expect_equal(result, torch.full((4,), float(size) ** 4), "calls of a future")


def a_group_that_ends_while_functions_run(rank, size):
    """Its end waits for a function of a future, which needs Python's lock."""
    store = dist.distributed_c10d._get_default_store()
    ended = []
    for k in range(5):
        backend = blink_torch.make(dist.PrefixStore("short/%d" % k, store), rank, size, limit)
        future = backend.allreduce([torch.ones(3)]).get_future()

        def slowly(f):
            time.sleep(0.05)
            ended.append(f.value()[0][0].item())

        future.then(slowly)
        while not future.done():
            time.sleep(0.001)
        del backend
    expect(ended == [size] * 5, "functions of groups that end: %s" % ended)


def an_order_of_the_ranks(rank, size):
    """With BLINK_ORDER=ranks the length of a tensor does not change the bits of its first elements."""
    os.environ["BLINK_ORDER"] = "ranks"
    group = dist.new_group(backend="blink")
    torch.manual_seed(rank)
    whole = torch.randn(100000)
    part = whole[:7].clone()
    dist.all_reduce(whole, group=group)
    dist.all_reduce(part, group=group)
    expect_equal(part, whole[:7], "bits of a short tensor")


def calls_after_the_end(rank, size):
    backend = blink_torch.make(
        dist.PrefixStore("ended", dist.distributed_c10d._get_default_store()), rank, size, limit
    )
    if not hasattr(backend, "shutdown"):
        return
    backend.allreduce([torch.ones(2)]).wait()
    backend.shutdown()
    try:
        backend.allreduce([torch.ones(2)])
    except RuntimeError as failure:
        expect("the group has ended" in str(failure), str(failure))
    else:
        expect(False, "no error after the end")
    dist.barrier()


def survivors(rank, size):
    """A rank dies inside a call; the others go on, and end with a right sum."""
    backend = dist.distributed_c10d._get_default_group()
    if size < 2 or not getattr(backend, "supports_reconfigure", False):
        return
    store = dist.distributed_c10d._get_default_store()
    store.set("handle/%d" % rank, backend.get_reconfigure_handle())
    handles = [store.get("handle/%d" % r).decode() for r in range(size)]
    dist.barrier()
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            dist.all_reduce(torch.ones(100000))
    except RuntimeError as failure:
        expect(names_lost(0, str(failure)), str(failure))
    reconfigured(backend, 1, handles[1:])
    expect(backend.size() == size - 1 and backend.rank() == rank - 1, "ranks after reconfigure")
    data = torch.full((1000,), float(rank))
    backend.allreduce([data]).wait()
    expect(bool((data == size * (size - 1) / 2).all()), "the sum of those that remain: %s" % data[0])


def coalesced_calls(rank, size):
    """Calls under a coalescing manager have gloo's results, and one work stands for all of them."""
    group = dist.distributed_c10d._get_default_group()
    host = torch.device("cpu")
    if not recorder():  # of the same version
        return
    gloo = dist.new_group(backend="gloo")
    manager = dist.distributed_c10d._coalescing_manager

    def inputs():
        torch.manual_seed(rank)
        return [torch.randn(size * (k + 1)) for k in range(5)]

    def results_of(by, begin):
        data, outputs = inputs(), [torch.zeros(size * size * 2), torch.zeros(1), torch.zeros(size)]
        begin(by, data, outputs)
        return data + outputs

    def all_calls(by, data, outputs):
        parts, own = list(outputs[0].view(size, -1)), data[1].clone()
        begins = by is not gloo  # gloo runs started calls in any order
        for work in (
            dist.broadcast(data[0], size - 1, group=by, async_op=begins),
            dist.reduce(data[1], 0, group=by, async_op=begins),
            dist.all_gather(parts, own, group=by, async_op=begins),
            dist.reduce_scatter(outputs[1], list(data[0].chunk(size)), group=by, async_op=begins),
            dist.all_to_all_single(outputs[2], data[0], group=by, async_op=begins),
        ):
            expect((work is not None) == begins, "a work for each call that begins")

    def sums(by, data, outputs):
        for each in data:
            dist.all_reduce(each, group=by)

    def gathers(by, data, outputs):
        dist.all_gather_into_tensor(outputs[0], data[1], group=by)
        dist.all_gather_into_tensor(outputs[2], data[0][:1], group=by)

    def together(calls):
        def begin(by, data, outputs):
            with manager(by, host, async_ops=True) as started:
                calls(by, data, outputs)
            expect(len(started.works) == 1, "%d works" % len(started.works))
            started.wait()
            expect(started.works[0].is_completed(), "the work after its wait")

        return begin

    # PyTorch folds some into one call.
    for calls in (sums, gathers, all_calls):
        expected = results_of(gloo, calls)
        got = results_of(group, together(calls))
        if calls is all_calls and rank != 0:
            got[1] = expected[1]  # a reduction's input at other ranks than its root
        for k, (a, b) in enumerate(zip(got, expected)):
            expect(torch.allclose(a, b, atol=1e-5), "%s, %d: %s, %s" % (calls.__name__, k, a, b))
    with manager(group, host):
        data = inputs()
        sums(group, data, [])
    expect(torch.allclose(data[4], results_of(gloo, sums)[4], atol=1e-5), "a manager that waits")

    # A future of all, in their order.
    with manager(group, host, async_ops=True) as started:
        ones = [torch.full((2,), float(k)) for k in range(3)]
        for each in ones:
            dist.broadcast(each, 0, async_op=True)
    values = started.works[0].get_future().then(lambda f: [t[0].item() for t in f.value()]).wait()
    expect(values == [0, 1, 2], "the future of three calls: %s" % values)

    # Calls of another thread stand alone, and none has no work.
    import threading

    group._start_coalescing(host)
    other = threading.Thread(target=lambda: group.barrier().wait())
    other.start()
    other.join()
    expect(group._end_coalescing(host) is None, "the work of no calls")


def coalesced_messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    gloo = dist.new_group(backend="gloo")
    host = torch.device("cpu")
    results = []
    for group in (None, gloo):
        # Alone, a rank of gloo cannot send to itself.
        if size == 1:
            continue
        got = [torch.zeros(k) for k in (1, 5, 100000)]
        ops = [dist.P2POp(dist.irecv, each, left, group=group) for each in got]
        ops += [
            dist.P2POp(dist.isend, torch.full((len(each),), rank + 0.5), right, group=group)
            for each in got
        ]
        works = dist.batch_isend_irecv(ops)
        backend = dist.distributed_c10d._get_default_group()
        if hasattr(backend, "_get_backend") and group is None:
            backend = backend._get_backend(host)
            one = recorder()
            expect(len(works) == (1 if one else len(ops)), "%d works" % len(works))
            while one and not works[0].is_completed():
                time.sleep(0.001)
        for each in works:
            each.wait()
        results.append(torch.cat(got))
    if results:
        expect_equal(results[0], results[1], "messages beside gloo's")
        expect(results[0][7].item() == left + 0.5, "messages from the left")


def coalesced_failures(rank, size):
    group = dist.distributed_c10d._get_default_group()
    if size < 2 or not recorder():
        return
    with dist.distributed_c10d._coalescing_manager(group, torch.device("cpu"), True) as started:
        dist.broadcast(torch.ones(3), 0, async_op=True)
        dist.reduce(torch.ones(10 + rank), 0, async_op=True)
        dist.broadcast(torch.ones(3), 0, async_op=True)
    try:
        started.wait()
    except RuntimeError as failure:
        expect("reduce, call 2 of the group" in str(failure), str(failure))
    else:
        expect(False, "no error for one of the calls")


def recorder():
    """True if PyTorch records the calls of blink's groups."""
    return hasattr(torch._C._distributed_c10d, "FlightRecorderHook")


def recorded(backend="blink"):
    dump = torch._C._distributed_c10d._dump_fr_trace_json(backend=backend)
    return json.loads(dump).get("entries", [])


def wait_for_states(*states):
    """Waits until the last recorded calls have these states."""
    end = time.time() + 10
    while True:
        got = tuple(e["state"] for e in recorded()[-len(states) :])
        if got == states:
            return
        expect(time.time() < end, "states %s, expected %s" % (got, states))
        time.sleep(0.01)


def recorded_calls(rank, size):
    """PyTorch's flight recorder has each call and message, and knows that it has completed."""
    if not recorder():
        return
    dist.all_reduce(torch.ones(4, dtype=torch.float64))
    dist.all_gather([torch.empty(3) for _ in range(size)], torch.ones(3))
    dist.broadcast(torch.ones(2, 5), 0, async_op=True).wait()
    names = ["all_reduce", "all_gather", "broadcast"]
    if size > 1:
        right, left = (rank + 1) % size, (rank - 1) % size
        dist.isend(torch.ones(7), right).wait()
        dist.irecv(torch.ones(7), left).wait()
        names += ["send %d->%d" % (rank, right), "recv %d<-%d" % (rank, left)]
    wait_for_states(*["completed"] * len(names))
    entries = recorded()
    expect([e["profiling_name"] for e in entries] == ["blink:" + n for n in names], str(entries))
    first = entries[0]
    expect(first["input_sizes"] == [[4]] and first["input_dtypes"] == ["Double"], str(first))
    expect([e["collective_seq_id"] for e in entries[:3]] == [1, 2, 3], str(entries))
    expect([e["is_p2p"] for e in entries] == [False] * 3 + [True] * (len(names) - 3), str(entries))
    expect(first["timeout_ms"] == limit.total_seconds() * 1000, str(first))
    for each in entries:
        begin, end = each["time_discovered_started_ns"], each["time_discovered_completed_ns"]
        expect(each["time_created_ns"] <= begin <= end, "times of %s" % each)
        expect(each["duration_ms"] >= 0, "duration of %s" % each)


def analysed(size):
    """Lets PyTorch's reader compare the ranks' dumps. Returns the collectives that do not fit."""
    import pickle

    from torch.distributed.flight_recorder import fr_trace

    prefix = os.environ["TORCH_FR_DUMP_TEMP_FILE"]
    folder, name = os.path.split(prefix)
    end = time.time() + 10
    while sum(f.startswith(name) for f in os.listdir(folder)) < size and time.time() < end:
        time.sleep(0.05)
    fr_trace.main([folder, "-p", name, "-o", prefix[: -len(name)] + "analysis"])
    with open(prefix[: -len(name)] + "analysis", "rb") as file:
        _, database = pickle.load(file)
    return [c for c in database.collectives if not c.pass_check or c.missing_ranks]


def a_recorded_rank_that_stays_away(rank, size):
    """The other ranks write their records when they fail, and PyTorch's reader names the rank."""
    if size < 2 or not recorder():
        return
    store = dist.distributed_c10d._get_default_store()
    group = dist.distributed_c10d._get_default_group()
    dist.all_reduce(torch.ones(3))
    if rank != size - 1:
        options = dist.AllreduceOptions()
        options.timeout = datetime.timedelta(milliseconds=1500)
        first = group.allreduce([torch.ones(4)], options)
        second = group.allreduce([torch.ones(5)], options)
        wait_for_states("completed", "started", "scheduled")
        try:
            first.wait()
        except RuntimeError as failure:
            expect("rank %d" % (size - 1) in str(failure), str(failure))
        else:
            expect(False, "no error for a rank that stays away")
        wait_for_states("completed", "started", "started")  # which is to say: not completed
        del second
    else:
        time.sleep(2)
        torch._C._distributed_c10d._dump_fr_trace_file(rank, backend="blink")
    store.set("written/%d" % rank, "yes")
    store.wait(["written/%d" % r for r in range(size)])
    if rank == 0:
        wrong = analysed(size)
        expect(len(wrong) > 0, "the reader finds nothing")
        found = wrong[0]
        expect(found.collective_seq_id == 2 and found.collective_name == "blink:all_reduce", str(found))
        expect(found.missing_ranks == {size - 1}, str(found))
    store.set("read/%d" % rank, "yes")
    store.wait(["read/0"])


def recorded_counts_that_differ(rank, size):
    """All ranks fail and write their records, and PyTorch's reader names the sizes."""
    if size < 2 or not recorder():
        return
    store = dist.distributed_c10d._get_default_store()
    dist.broadcast(torch.ones(3), 0)
    try:
        dist.all_reduce(torch.ones(10 + rank))
    except RuntimeError:
        pass
    else:
        expect(False, "no error for counts that differ")
    store.set("written/%d" % rank, "yes")
    if rank == 0:
        wrong = analysed(size)
        expect(len(wrong) > 0 and wrong[0].mismatch_collectives, str(wrong))
        expect(wrong[0].collective_seq_id == 2, str(wrong[0]))
        for other, found in wrong[0].mismatch_collectives.items():
            expect("SIZE_OR_SYNTAX_MISMATCH" in str(found.type_of_mismatch), str(found))
            expect(found.input_sizes == [[10 + other]], str(found))
    store.set("read/%d" % rank, "yes")
    store.wait(["read/0"])


def a_recorded_message_that_does_not_come(rank, size):
    """Its receiver writes its record, and calls functions of the program for failures."""
    if size < 2 or not recorder():
        return
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
        reported = []
        backend.register_abort_hook(7, lambda: reported.append(7))
        backend.register_abort_hook(8, lambda: reported.append(8))
        backend.unregister_abort_hook(8)
        work = dist.irecv(torch.ones(3), 1)
        expect(not work.is_completed(), "a message that was not sent")
        wait_for_states("started")
        try:
            work.wait(datetime.timedelta(milliseconds=300))
        except RuntimeError as failure:
            expect("recv" in str(failure) and "rank 1" in str(failure), str(failure))
        else:
            expect(False, "no error for a message that does not come")
        expect(reported == [7], "functions for failures: %s" % reported)
        expect(os.path.exists(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + "0"), "no record")
        expect(recorded()[-1]["profiling_name"] == "blink:recv 0<-1", str(recorded()[-1]))
        expect(recorded()[-1]["state"] == "started", str(recorded()[-1]))
    store.set("read/%d" % rank, "yes")
    store.wait(["read/0"])


tests = [
    reductions, truth_values, averages, copies, unequal_blocks, single_tensors, strided_tensors,
    started_calls, threads_wait, messages, sparse_tensors, sub_groups, objects, monitored_barriers,
    wrong_arguments, counts_that_differ, a_rank_that_dies, a_rank_that_stays_away,
    survivors, a_new_rank_joins, a_future_may_wait_for_later_calls,
    a_group_that_ends_while_functions_run, an_order_of_the_ranks,
    calls_after_the_end, coalesced_calls, coalesced_messages, coalesced_failures, recorded_calls,
    a_recorded_rank_that_stays_away, a_recorded_message_that_does_not_come,
    recorded_counts_that_differ,
]


def ends(size):
    """The tests that end a process, and its rank."""
    return [(a_rank_that_dies, size - 1), (survivors, 0)] if size > 1 else []


def enter_host(rank, size, folder):
    """Puts the upper half of the ranks on another host, as blink sees it: another UTS namespace."""
    first = size // 2
    if rank < first or size < 2:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    space = os.path.join(folder, "host")
    if rank == first:
        if libc.unshare(0x04000000) != 0:  # CLONE_NEWUTS
            raise OSError(ctypes.get_errno(), "unshare")
        os.symlink("/proc/%d/ns/uts" % os.getpid(), space)
        return
    while not os.path.lexists(space):
        time.sleep(0.01)
    with open(space) as file:
        if libc.setns(file.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def can_have_hosts():
    """True if this process may make a UTS namespace."""
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(0x04000000) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def run(test, rank, size, path, pipe):
    try:
        if over_hosts:
            enter_host(rank, size, os.path.dirname(path))
        torch.set_num_threads(1)
        os.environ["TORCH_FR_DUMP_TEMP_FILE"] = os.path.join(os.path.dirname(path), "trace_")
        os.environ["TORCH_INCLUDE_STACK_TRACE"] = "0"  # the first takes PyTorch up to 15 s
        dist.init_process_group(
            "blink", init_method="file://" + path, rank=rank, world_size=size, timeout=limit
        )
        test(rank, size)
        pipe.send("")
    except BaseException:
        pipe.send(traceback.format_exc())


def run_among(test, size):
    """Runs a test in `size` processes. Returns what went wrong."""
    folder = tempfile.mkdtemp()
    context = multiprocessing.get_context("fork")
    ranks = []
    for rank in range(size):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=run, args=(test, rank, size, os.path.join(folder, "store"), theirs)
        )
        process.start()
        theirs.close()
        ranks.append((process, ours))
    faults = []
    end = time.time() + 120
    for rank, (process, pipe) in enumerate(ranks):
        if not pipe.poll(max(0, end - time.time())):
            faults.append("rank %d hangs" % rank)
        else:
            try:
                text = pipe.recv()
            except EOFError:
                text = "" if (test, rank) in ends(size) else "ended its process"
            if text:
                faults.append("rank %d: %s" % (rank, text))
    for process, _ in ranks:
        process.join(5)
        process.kill()
    return faults


def main():
    global over_hosts
    if over_hosts and not can_have_hosts():
        print("no UTS namespaces, so all ranks are on one host and share no memory", flush=True)
        os.environ["BLINK_SHARED_MEMORY"] = "0"
        over_hosts = False
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failed = 0
    for test in tests:
        if wanted not in test.__name__:
            continue
        for size in (1, 2, 4):
            begin = time.time()
            faults = []
            for _ in range(times):
                faults += run_among(test, size)
            failed += bool(faults)
            print("%s %s, %d ranks, %d times, %.1f s" % (
                "FAIL" if faults else "ok  ", test.__name__, size, times, time.time() - begin),
                flush=True)
            for fault in faults:
                print(fault, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
