#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the data of `blink report` with plan files, with other commands and with the definitions.

usage: report_data.py BLINK DATA FOLDER
"""
import csv
import json
import subprocess
import sys
import xml.dom.minidom
from fractions import Fraction
from pathlib import Path

blink, data, work = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
failures = []


def expect(is_right, what):
    if not is_right:
        failures.append(what)
        print("FAILED report_data:", what)


def near(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-300)


def run(*arguments):
    return subprocess.run([blink, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


def planned(*arguments):
    path = work / "planned.json"
    run("plan", *arguments, "--out", path, "--force")
    return json.loads(path.read_text())


def reported(name, *arguments):
    """The report's data, its page and its tables; the three must agree."""
    page, values, tables = work / (name + ".html"), work / (name + ".json"), work / (name + "_tables")
    run("report", *arguments, "-o", page, "--json", values, "--csv", tables)
    text = page.read_text(encoding="utf-8")
    expect(page.stat().st_size < 2_000_000, f"{name}: a page of {page.stat().st_size} bytes")
    found = json.loads(values.read_text(encoding="ascii"))
    start = text.index('<script type="application/json" id="data">')
    block = text[text.index(">", start) + 1:text.index("</script>", start)]
    expect(json.loads(block) == found, f"{name}: the page's data differs from --json")
    for forbidden in ("http://", "https://", "<link", "src=", "@import", "@STYLE@", "@SCRIPT@", "@VERSION@", "@DRAWING@"):
        outside = text.replace(block, "").replace("http://www.w3.org/2000/svg", "")
        expect(forbidden not in outside, f"{name}: the page holds {forbidden}")
    expect({path.stem for path in tables.iterdir()} == set(found["tables"]), f"{name}: other tables as CSV")
    for table, content in found["tables"].items():
        rows = list(csv.reader((tables / (table + ".csv")).open(encoding="utf-8")))
        expect(len(rows) == 1 + len(content["rows"]), f"{name}: rows of {table}.csv")
        for row, cells in zip(rows[1:], content["rows"]):
            for shown, cell in zip(row, cells):
                same = shown == "" if cell is None else shown == cell if isinstance(cell, str) else float(shown) == float(cell)
                expect(same, f"{name}, {table}.csv: {shown} for {cell}")
    return found


def column(report, table, title):
    content = report["tables"][table]
    at = [each["title"] for each in content["columns"]].index(title)
    return [row[at] for row in content["rows"]]


def row_of(report, table, key):
    for row in report["tables"][table]["rows"]:
        if key in row:
            return row
    expect(False, f"{table} has no {key}")
    return [0] * 20


def hops(plan):
    for number, tree in enumerate(plan["trees"]):
        for way in ("reduce", "broadcast"):
            for _, _, path in tree.get(way, []):
                for ends in zip(path, path[1:]):
                    yield number, way == "reduce", ends


def check_plan(name, report, plan):
    """Rates, loads, proof and time line, computed again from the plan file."""
    expect(report["plan"] == plan, f"{name}: another plan")
    rate = Fraction(plan["rate"])
    expect(near(row_of(report, "summary", "rate")[1], float(rate)), f"{name}: rate")
    expect(column(report, "trees", "exact weight") == [tree["weight"] for tree in plan["trees"]], f"{name}: weights")
    load = {}
    for tree, _, ends in hops(plan):
        load[ends] = load.get(ends, 0) + Fraction(plan["trees"][tree]["weight"])
    for row in report["tables"]["loads"]["rows"]:
        expect(near(row[4], float(load.get((row[0], row[1]), 0))), f"{name}: load {row[:2]}")
        expect(row[4] <= row[5] * (1 + 1e-12), f"{name}: overload {row[:2]}")
    expect(sum(row[4] > 0 for row in report["tables"]["loads"]["rows"]) == len(load), f"{name}: loaded links")
    proof = report["proof"]
    total = sum(Fraction(row[6]) * Fraction(row[4]).limit_denominator(10**6) for row in report["tables"]["proof"]["rows"])
    expect(Fraction(proof["exact_bound"]) == Fraction(plan["bound"]), f"{name}: bound of the proof {proof['exact_bound']}")
    expect(near(float(total * Fraction(proof["exact_factor"])), float(Fraction(plan["bound"]))), f"{name}: sum of the proof")
    line = report["time_line"]
    chunks, carried, last, known = {}, {}, 0, set(hops(plan))
    for link, tree, is_reduce, chunk, start, end, begin, stop in line["events"]:
        ends = tuple(line["links"][link])
        expect((tree, bool(is_reduce), ends) in known, f"{name}: a chunk on {ends}")
        chunks.setdefault(tree, set()).add(chunk)
        carried.setdefault(link, []).append((begin, stop))
        last = max(last, stop)
    expect(len(line["events"]) == sum(len(chunks[tree]) for tree, _, _ in hops(plan)), f"{name}: crossings")
    for link, times in carried.items():
        times.sort()
        expect(all(a[1] <= b[0] + 2 for a, b in zip(times, times[1:])), f"{name}: chunks overlap on {line['links'][link]}")
    expect(last <= line["nanoseconds"], f"{name}: the end of the time line")


six = reported("six", data / "dgx1v.xml", "--ranks", "0-5", "--pictures", work / "pictures")
check_plan("six", six, planned(data / "dgx1v.xml", "--ranks", "0-5"))
expect(row_of(six, "summary", "rate")[1] == 62.5, "six: 62.5 GB/s")
expect(row_of(six, "summary", "rate of the best ring")[3] == planned(data / "dgx1v.xml", "--ranks", "0-5", "-p", "ring")["rate"], "six: ring")
names = {path.name for path in (work / "pictures").iterdir()}
expect(names == {"machine.svg", "plan.svg"} | {f"tree_{i + 1}.svg" for i in range(len(six["plan"]["trees"]))}, f"pictures: {names}")
for path in (work / "pictures").iterdir():
    xml.dom.minidom.parse(str(path))

# Sets of ranks: each row is what `blink plan` finds, and the DGX-1s have as many classes as the paper counts.
for machine, classes in (("dgx1v", 46), ("dgx1p", 14)):
    report = reported(machine, machine)
    sets = [row for row in report["tables"]["allocations"]["rows"] if row[0] >= 3]
    expect(len(sets) == classes, f"{machine}: {len(sets)} classes")
    for row in sets[:4] + sets[-2:]:
        best = planned(machine, "--ranks", row[1])
        expect(near(row[5], float(Fraction(best["rate"]))), f"{machine} {row[1]}: rate")
        if row[6] is None:
            refused = subprocess.run([blink, "plan", machine, "--ranks", row[1], "-p", "ring"], capture_output=True)
            expect(refused.returncode == 2, f"{machine} {row[1]}: a ring is missing")
            continue
        ring = planned(machine, "--ranks", row[1], "-p", row[7])
        expect(near(row[6], float(Fraction(ring["rate"]))) and near(row[8], row[5] / row[6]), f"{machine} {row[1]}: ring")

# Changes of the machine, made again on its JSON.
whole = json.loads(run("topo", "dgx1v", "--convert", "json"))
report = json.loads((work / "dgx1v.json").read_text())


def changed(links):
    path = work / "changed.json"
    path.write_text(json.dumps({**whole, "links": links}))
    return float(Fraction(planned(path)["rate"]))


rows = report["tables"]["changes"]["rows"]
dead = next(row for row in rows if row[0].startswith("dead: NVLink between gpu0 and gpu"))
other = int(dead[0].rsplit("gpu", 1)[1])
expect(near(dead[2], changed([link for link in whole["links"] if {link["src"], link["dst"]} != {0, other}])), "changes: " + dead[0])
more = next(row for row in rows if row[0].startswith("one NVLink more between gpu0 and gpu"))
other = int(more[0].rsplit("gpu", 1)[1])
least = min(link["capacity"] for link in whole["links"])
extra = [{"src": a, "dst": b, "capacity": least, "kind": "nvlink"} for a, b in ((0, other), (other, 0))]
expect(near(more[2], changed(whole["links"] + extra)), "changes: " + more[0])
faster = next(row for row in rows if row[0] == "all NVLink twice as fast")
expect(near(faster[3], 100), "changes: twice as fast")
without = next(row for row in rows if row[0] == "without rank 0")
expect(near(without[2], float(Fraction(planned("dgx1v", "--ranks", "1-7")["rate"]))), "changes: without rank 0")
pairs = {frozenset((link["src"], link["dst"])) for link in whole["links"]}
expect(sum(row[1] for row in rows if row[0].startswith("dead")) == len(pairs), "changes: each pair of joined ranks counts once")
expect(sum(row[1] for row in rows if row[0].startswith("one NVLink more")) == 28, "changes: each pair of ranks counts once")
network = reported("servers", "dgx_a100:2")
faster = next(row for row in network["tables"]["changes"]["rows"] if row[0] == "the network twice as fast")
expect(faster[2] > row_of(network, "summary", "rate")[1], "changes: a faster network")

for name, arguments in {"two_servers": ("dgx_a100:2",), "gather": ("dgx2", "-c", "all_gather"), "scatter": ("dgx1v", "-c", "reduce_scatter"),
                        "root": ("dgx1v", "-c", "broadcast", "--root", "3"), "flows": ("dgx1v", "-c", "all_to_all")}.items():
    check_plan(name, reported(name, *arguments), planned(*arguments))
large = reported("large", "dgx_a100:8")
expect(row_of(large, "summary", "ranks")[1] == 64, "64 ranks")
larger = reported("larger", "dgx_a100:16")
expect("plan" not in larger and len(larger["tables"]["trees"]["rows"]) == 128, "128 ranks")

# A plan file, and its difference from the plan before.
ring = work / "ring.json"
run("plan", "dgx1v", "-p", "ring", "--out", ring)
different = reported("different", "dgx1v", "--diff", ring)
before, after = json.loads(ring.read_text()), different["plan"]
row = row_of(different, "difference", "rate")
expect(near(row[1], float(Fraction(before["rate"]))) and near(row[2], float(Fraction(after["rate"]))), "difference: rates")
trees = different["tables"]["difference_trees"]["rows"]
expect(sorted(row[0] for row in trees if row[0]) == list(range(1, len(before["trees"]) + 1)), "difference: trees before")
expect(sorted(row[1] for row in trees if row[1]) == list(range(1, len(after["trees"]) + 1)), "difference: trees after")
same = reported("same", "dgx1v", ring, "--diff", ring)
expect(all(row[2] == "kept" for row in same["tables"]["difference_trees"]["rows"]) and not same["tables"]["difference_loads"]["rows"], "no difference")
expect(same["plan"] == before, "the plan of the file")

# Programs of other runtimes.
run("plan", "dgx1v", "--ranks", "0-3", "--msccl", work / "four.xml", "--mscclpp", work / "four.json", "--goal", work / "four.goal",
    "--chakra", work / "four", "--bytes", "1M")
for name, path in {"msccl": "four.xml", "mscclpp": "four.json", "goal": "four.goal", "chakra": "four.0.et"}.items():
    found = reported(name, work / path)
    expect(found["program"]["is_sound"] and row_of(found, "summary", "ranks")[1] == 4, f"{name}: {found['sentence']}")
    expect(len(found["tables"]["steps"]["rows"]) == row_of(found, "summary", "steps")[1] > 0, f"{name}: steps")
four = work / "four_machine.json"
four.write_text(run("topo", "dgx1v", "--ranks", "0-3", "--convert", "json"))
loaded = reported("loaded", work / "four.xml", four)
shown = subprocess.run([blink, "check", work / "four.xml", "--machine", four], check=True, stdout=subprocess.PIPE, text=True).stdout
expect(f"rate         {row_of(loaded, 'summary', 'rate at most')[1]:.6g} GB/s" in shown, "loaded: the rate of blink check")

# Foreign text stays text.
evil = work / "evil.json"
evil.write_text(json.dumps({
    "name": "</script><img src=x onerror=alert(1)>@DATA@", "unit": "GB/s", "gpus": 2, "switches": 0,
    "nodes": [{"id": i, "kind": "gpu", "label": "<svg onload=alert(2)>", "server": 0} for i in range(2)],
    "links": [{"src": i, "dst": 1 - i, "capacity": 25} for i in range(2)]}))
page = work / "evil.html"
run("report", evil, "-o", page)
text = page.read_text()
expect("<img" not in text and "<svg onload" not in text and text.count("</script>") == 2, "a name breaks out of the page")
expect(text.count('id="data"') == 1, "the data is there once")

print("report_data:", f"{len(failures)} failures" if failures else "all as expected")
sys.exit(1 if failures else 0)
