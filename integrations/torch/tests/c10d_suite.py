# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of collectives that PyTorch ships (torch.testing._internal.distributed), in lasting
processes: a group for each test, so that 240 tests take a minute.

    python c10d_suite.py --backend blink          # or gloo, to compare
    python c10d_suite.py --expected expected.txt  # exits 1 for a failure that is not listed

The suite skips many tests for backends that it does not know. So blink runs here in gloo's place,
under its name. Tests that need GPUs are left out.
"""

import argparse
import collections
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

needs_gpu = re.compile(r"cuda|nccl|gpu|stream|cudagraph|nvfuser|multigpu", re.IGNORECASE)
# The reducer of PyTorch 1.13 takes any group named gloo for an object of gloo's class, and crashes.
needs_own_name = re.compile(r"ddp|DistributedDataParallel|accumulate_gradients|static_graph")


def stand_in(name):
    """Lets the suite's groups of gloo run on another backend.

    Returns a function that takes the name of the next test.
    """
    import torch.distributed.distributed_c10d as c10d

    if name == "gloo":
        return lambda test: None
    import blink_torch

    if hasattr(c10d, "_create_gloo_process_group"):
        c10d._create_gloo_process_group = lambda options, _: blink_torch.make(
            options.store, options.group_rank, options.group_size, options.timeout, "gloo"
        )
        return lambda test: None

    # In debug mode PyTorch 1.13 wraps gloo's own groups only.
    c10d._create_process_group_wrapper = lambda wrapped_pg, *_, **__: wrapped_pg

    class stand_in_for_gloo:
        name = "gloo"

        def __new__(cls, store, rank, size, timeout=c10d.default_pg_timeout):
            return blink_torch.make(store, rank, size, timeout, cls.name)

    c10d.ProcessGroupGloo = stand_in_for_gloo

    def begin(test):
        stand_in_for_gloo.name = "blink" if needs_own_name.search(test) else "gloo"

    return begin


def suite():
    """The test class, and the names of tests for hosts."""
    os.environ.setdefault("BACKEND", "gloo")
    os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
    import torch.testing._internal.common_distributed as common
    from torch.testing._internal.distributed import distributed_test as tests

    class on_hosts(tests.TestDistBackend, tests.DistributedTest._DistTestBase):
        pass

    names = [n for n in dir(on_hosts) if n.startswith("test_") and not needs_gpu.search(n)]
    return tests, common, on_hosts, names


def begin_together(meeting, folder, args, name):
    """Waits for all ranks between two tests, and forgets what the last one has left."""
    import torch.distributed.distributed_c10d as c10d
    from torch.testing._internal.distributed import distributed_test as tests

    limit = datetime.timedelta(seconds=args.limit)
    meeting.set("%s/%d" % (name, args.rank), "here")
    meeting.wait(["%s/%d" % (name, r) for r in range(args.ranks)], limit)
    if args.rank == 0:  # the suite lets all ranks remove these files, of which one may be too late
        barriers = os.path.join(folder, "barrier")
        for left in os.listdir(barriers):
            os.unlink(os.path.join(barriers, left))
        meeting.set("%s/clean" % name, "yes")
    meeting.wait(["%s/clean" % name], limit)
    tests.Barrier.barrier_id = 0
    # A failure on one rank only would leave the ranks with other numbers of groups.
    if hasattr(c10d, "_world"):
        c10d._world.group_count = 0
    else:
        c10d._group_count = 0


def text_of(failure):
    """A traceback without the frames of C++."""
    lines = "".join(traceback.format_exception(failure)).splitlines()
    return "\n".join(line for line in lines if not line.startswith("frame #"))[-1500:]


def run_rank(args):
    os.environ["WORLD_SIZE"] = str(args.ranks)
    os.environ["RANK"] = str(args.rank)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    tests, common, on_hosts, names = suite()
    import torch
    import torch.distributed as dist

    begin = stand_in(args.backend)
    torch.set_num_threads(1)
    os.environ["TEMP_DIR"] = args.folder
    for place in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(args.folder, place), exist_ok=True)
    skips = {s.exit_code: s.message for s in common.TEST_SKIPS.values()}
    meeting = dist.FileStore(os.path.join(args.folder, "meeting"), args.ranks)
    limits = getattr(tests, "CUSTOM_PG_TIMEOUT", {})
    for name in names[args.first :]:
        begin_together(meeting, args.folder, args, name)
        store = os.path.join(args.folder, name)
        verdict, detail = "pass", ""
        torch.manual_seed(0)
        for variable in [v for v in os.environ if v.startswith("TORCH_DISTRIBUTED_DEBUG")]:
            del os.environ[variable]
        dist.set_debug_level(dist.DebugLevel.OFF)
        begin(name)
        try:
            test = on_hosts(name)
            test.rank = args.rank
            test.file_name = store
            function = getattr(test, name)
            function = getattr(function, "__wrapped__", function)
            if getattr(function, "__unittest_skip__", False):
                verdict, detail = "skip", function.__unittest_skip_why__
            else:
                dist.init_process_group(
                    "gloo",
                    init_method="file://" + store,
                    world_size=args.ranks,
                    rank=args.rank,
                    timeout=datetime.timedelta(seconds=limits.get(name, 30)),
                )
                dist.barrier()
                bound = function if hasattr(function, "__self__") else function.__get__(test)
                bound()
        except SystemExit as ended:
            verdict = "skip" if ended.code in skips else "fail"
            detail = skips.get(ended.code, "exit %s" % ended.code)
        except BaseException as failure:
            if type(failure).__name__ == "SkipTest":
                verdict, detail = "skip", str(failure)
            else:
                verdict = "fail"
                detail = text_of(failure)
        try:
            if dist.is_initialized():
                dist.destroy_process_group()
        except Exception as failure:
            verdict, detail = "fail", "destroy_process_group: %s" % failure
        print("@@ %s %s %s" % (name, verdict, detail.replace("\n", "\\n")), flush=True)


def results_of(path):
    found = collections.OrderedDict()
    with open(path, errors="replace") as log:
        for line in log:
            if line.startswith("@@ "):
                name, verdict, detail = (line[3:].rstrip("\n") + " ").split(" ", 2)
                found[name] = (verdict, detail)
    return found


def expected_failures(path):
    """The tests of a file that may fail with this version of PyTorch.

    A line is the name of a test, and the versions in which it fails unless it fails in all.
    """
    import torch

    found = set()
    with open(path) as lines:
        for line in lines:
            name, *versions = line.split("#")[0].split() or [""]
            if not versions or any(torch.__version__.startswith(v + ".") for v in versions):
                found.add(name)
    return found - {""}


def end_of(process):
    """How a process that was not stopped by this program has ended."""
    if process.poll() is None:
        return "hangs"
    if process.returncode < 0:
        return "ended by %s" % signal.Signals(-process.returncode).name
    return "exit %d" % process.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="blink")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--limit", type=int, default=60, help="seconds for one test")
    parser.add_argument("--expected", help="file of tests that may fail")
    parser.add_argument("--only", help="a part of names of tests")
    parser.add_argument("--rank", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    global needs_gpu
    if args.only:
        needs_gpu = re.compile(needs_gpu.pattern + "|^(?!.*(" + args.only + "))", re.IGNORECASE)
    if args.rank >= 0:
        return run_rank(args)
    os.environ["WORLD_SIZE"] = str(args.ranks)
    try:
        names = suite()[3]
    except ImportError as missing:
        print("skipped: PyTorch's suite needs another package: %s" % missing)
        sys.exit(77)
    verdicts = {}
    begin = time.time()
    first = 0
    while first < len(names):
        folder = tempfile.mkdtemp()
        logs = [os.path.join(folder, "log%d" % r) for r in range(args.ranks)]
        processes = []
        for rank in range(args.ranks):
            command = [sys.executable, os.path.abspath(__file__), "--rank", str(rank)]
            command += ["--ranks", str(args.ranks), "--backend", args.backend]
            command += ["--first", str(first), "--folder", folder, "--limit", str(args.limit)]
            command += ["--only", args.only] if args.only else []
            log = open(logs[rank], "w")
            processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
        done, since = 0, time.time()
        while any(p.poll() is None for p in processes):
            time.sleep(0.2)
            now = min(len(results_of(path)) for path in logs)
            if now > done:
                done, since = now, time.time()
            if time.time() - since > args.limit + 30 or any(p.poll() for p in processes):
                break
        time.sleep(0.5)
        ends = ", ".join("rank %d: %s" % (r, end_of(p)) for r, p in enumerate(processes))
        for p in processes:
            p.kill()
            p.wait()
        found = [results_of(path) for path in logs]
        for name in names[first : first + min(len(f) for f in found)]:
            each = [f[name] for f in found]
            fails = [d for v, d in each if v == "fail"]
            skips = [d for v, d in each if v == "skip"]
            verdicts[name] = ("fail", fails[0]) if fails else ("skip", skips[0]) if skips else ("pass", "")
        first += min(len(f) for f in found)
        if first < len(names) and names[first] not in verdicts:
            tails = [open(path, errors="replace").read()[-800:] for path in logs]
            verdicts[names[first]] = ("fail", ends + ": " + " | ".join(tails))
            first += 1
        shutil.rmtree(folder, ignore_errors=True)
    counts = collections.Counter(v for v, _ in verdicts.values())
    expected = expected_failures(args.expected) if args.expected else set()
    for name, (verdict, detail) in verdicts.items():
        if verdict == "fail":
            mark = "known" if name in expected else "FAIL"
            print("%s %s\n%s" % (mark, name, detail.replace("\\n", "\n")))
    reasons = collections.Counter(d.strip() for v, d in verdicts.values() if v == "skip")
    for reason, count in reasons.most_common():
        print("skip %3d  %s" % (count, reason))
    print(
        "%s, %d ranks: %d tests, %d pass, %d fail, %d skip, %.0f s"
        % (args.backend, args.ranks, len(verdicts), counts["pass"], counts["fail"], counts["skip"],
           time.time() - begin)
    )
    unexpected = [n for n, (v, _) in verdicts.items() if v == "fail" and n not in expected]
    sys.exit(1 if unexpected else 0)


if __name__ == "__main__":
    main()
