#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tables that `blink plan`, `topo` and `probe` print with their files of JSON and CSV.

usage: printed_tables.py BLINK FOLDER [PROGRAM]

PROGRAM stands for the one that measures GPUs.

`same_rows`, `rounds_to` and `expect` also serve the table test of `blink stalls`.
"""
import csv
import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

failures = []


def expect(is_right, what):
    if not is_right:
        failures.append(what)
        print("FAILED printed_tables:", what)


def rounds_to(value, text):
    """True if the text is the value with its number of decimals."""
    decimals = len(text.partition(".")[2])
    return abs(value - float(text)) <= 0.5000001 * 10.0**-decimals


def flat(row):
    """A row as CSV has it: keys of inner objects behind a point, arrays with spaces."""
    result = {}
    for key, value in row.items():
        for inner, cell in value.items() if isinstance(value, dict) else [(None, value)]:
            result[key if inner is None else f"{key}.{inner}"] = (
                " ".join(map(str, cell)) if isinstance(cell, list) else cell)
    return result


def same_rows(rows, path):
    """Expects a CSV file with these rows, and a column for each of their keys."""
    with open(path, encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file, strict=True))
    expect(len(found) == len(rows), f"{path}: {len(found)} rows, expected {len(rows)}")
    for cells, row in zip(found, map(flat, rows)):
        expect(None not in cells and None not in cells.values(), f"{path}: a row of another length: {cells}")
        expect(set(row) <= set(cells), f"{path}: columns {list(cells)}, expected {list(row)}")
        for key, text in cells.items():
            value = row.get(key)
            if value is None:
                expect(text == "", f"{path}: {key} is '{text}', expected nothing")
            elif isinstance(value, str):
                shown = "".join("?" if ord(c) < 32 else c for c in value)
                expect(text == shown, f"{path}: {key} is '{text}', expected '{shown}'")
            else:
                expect(float(text) == float(value), f"{path}: {key} is {text}, expected {value}")


def exact(row, key, text):
    """Expects a number beside its exact text, which is the printed one."""
    expect(row["exact_" + key] == text, f"{key} {row['exact_' + key]}, printed {text}")
    expect(abs(row[key] - float(Fraction(text))) <= 1e-12 * abs(row[key]), f"{key} is {row[key]}, expected {text}")


def tables_of(blink, folder, name, *arguments):
    """Runs `blink plan`; returns its output and its JSON, whose rows the CSV file has as well."""
    files = [folder / (name + ending) for ending in (".json", ".csv")]
    printed = subprocess.run([blink, "plan", *arguments, "--json", files[0], "--csv", files[1]], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    document = json.loads(files[0].read_text(encoding="utf-8"))
    same_rows(document["rows"], files[1])
    return printed, document


def lines_after(printed, head):
    """The lines of the table whose head begins with this word, up to an empty line."""
    lines = printed.split("\n")
    start = next(i for i, line in enumerate(lines) if line.split()[:len(head.split())] == head.split())
    table = lines[start + 1:]
    return table[:table.index("")]


def compare(blink, folder, name, *arguments):
    printed, document = tables_of(blink, folder, name, *arguments, "--compare")
    lines = lines_after(printed, "planner rate")
    expect(len(lines) == len(document["rows"]), f"{name}: {len(lines)} lines, {len(document['rows'])} rows")
    planned = 0
    for line, row in zip(lines, document["rows"]):
        planner, rate, rest = re.fullmatch(r"  (\S+) +(\S+)  *(.*)", line).groups()
        expect(row["planner"] == planner and row["unit"], f"{name}: {row['planner']}, printed {planner}")
        if rate == "-":
            shown = "".join("?" if ord(c) < 32 else c for c in row["refused"])
            expect(shown == rest, f"{name}: {planner}: {row['refused']}")
            expect(all(row[key] is None for key in ("rate", "exact_rate", "share_of_bound", "trees", "height")),
                   f"{name}: {planner} has a rate")
            continue
        planned += 1
        exact(row, "rate", rate)
        share, trees, height, chosen, gain = re.fullmatch(
            r"(\S+)% +(\d+) +(\d+) *(?:\((\S+) is (\S+) times as fast\))?", rest).groups()
        expect(rounds_to(100 * (row["share_of_bound"] or 0), share), f"{name}: {planner}: {row['share_of_bound']}")
        expect((row["trees"], row["height"]) == (int(trees), int(height)), f"{name}: trees of {planner}")
        expect(row["refused"] is None, f"{name}: {planner} is refused")
        expect(chosen == (None if planner == document["chosen"] else document["chosen"]), f"{name}: chosen {chosen}")
        expect(rounds_to(row["chosen_times_as_fast"], gain or "1.00"), f"{name}: {planner}: gain")
    expect(planned > 1, f"{name}: {planned} plans")
    return document


def groups(blink, folder, name, *arguments):
    printed, document = tables_of(blink, folder, name, *arguments)
    lines = [line for line in lines_after(printed, "group collective") if not line.startswith("  and")]
    alone = "--compare" in arguments
    for line, row in zip(lines, document["rows"]):
        cells = line.split(None, 6 if alone else 5)
        expect([str(row["group"]), row["collective"]] == cells[:2], f"{name}: {cells}")
        exact(row, "rate", cells[2])
        expect([str(row["trees"]), str(row["height"])] == cells[3:5], f"{name}: {cells}")
        if alone:
            exact(row, "rate_alone", cells[5])
        expect(("rate_alone" in row) == alone, f"{name}: alone")
        if "-" not in cells[-1]:
            expect(" ".join(map(str, row["ranks"])) == cells[-1], f"{name}: ranks {row['ranks']}, {cells[-1]}")
    levels = [rate for rate in re.findall(r"^level \d+ .* at (\S+) ", printed, re.M)]
    expect(len(levels) == len(document["levels"]), f"{name}: levels")
    for rate, level in zip(levels, document["levels"]):
        expect(f"{level['rate']:.6g}" == rate, f"{name}: level at {rate}")
    return len(lines), document


def matrix(printed, title):
    """The cells of a printed matrix by row and column, without the diagonal; nothing if it is not shown."""
    lines = printed.split("\n")
    if title not in lines:
        return {}
    start = lines.index(title) + 2
    columns = [int(cell) for cell in lines[start].split()]
    rows = [line.split() for line in lines[start + 1:start + 1 + len(columns)]]
    return {(int(row[0]), b): row[1 + k] for row in rows for k, b in enumerate(columns) if int(row[0]) != b}


def topo(blink, folder, name, *arguments):
    """Compares the matrix of best paths with the file of `--csv` and with the `paths` of `--json`."""
    file = folder / (name + ".csv")
    printed = subprocess.run([blink, "topo", *arguments, "--csv", file], check=True, stdout=subprocess.PIPE, text=True).stdout
    values = subprocess.run([blink, "topo", *arguments, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    paths = json.loads(values)["paths"]
    same_rows(paths, file)
    title = next((line for line in printed.split("\n") if line.startswith("best path from the row's rank")), "")
    cells = matrix(printed, title)
    shown = {(row["from"], row["to"]): row for row in paths}
    expect(set(shown) == {ends for ends, cell in cells.items() if cell != "."}, f"{name}: other pairs")
    for ends, cell in cells.items():
        if cell != ".":
            expect(cell[1:] == f"{shown[ends]['rate']:.6g}", f"{name}: {ends}: {cell}, {shown[ends]}")
    return paths


def same_cells(rows, key, cells, what):
    expect(not cells or len(rows) == len(cells), f"{what}: {len(rows)} rows, {len(cells)} cells")
    for (a, b), text in cells.items():
        value = next(row[key] for row in rows if (row["from"], row["to"]) == (a, b))
        expect(value is None if text == "?" else rounds_to(value, text), f"{what}: {a} to {b} is {value}, printed {text}")


def probe(blink, folder, name, *arguments, before=()):
    """Compares what `blink probe` prints with its files."""
    values, tables = folder / (name + ".json"), folder / (name + "_tables")
    printed = subprocess.run([*before, blink, "probe", *arguments, "--json", values, "--csv", tables], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    printed = re.sub(r"^\[0\] ", "", printed, flags=re.M)
    document = json.loads(values.read_text(encoding="utf-8"))
    expect({path.stem for path in tables.iterdir()} == set(document) - {"blink_probe", "bytes"}, f"{name}: other tables")
    for path in tables.iterdir():
        same_rows(document[path.stem], path)
    of = "GPU" if "--gpus" in arguments else "rank"
    same_cells(document["pairs"], "gigabytes_per_second", matrix(printed, f"a pair alone, from the row's {of} to the column's"),
               name)
    same_cells(document["pairs"], "answer_microseconds", matrix(printed, "microseconds from a small message to its answer"), name)
    same_cells(document["host_pairs"], "loaded_gigabytes_per_second", matrix(printed, "while all GPUs exchange data in pairs"), name)
    ports = re.findall(r"^GPU (\d+): (\S+) out, (\S+) in$", printed, re.M)
    for number, out, into in ports:
        row = document["hosts"][int(number)]
        expect(rounds_to(row["out_gigabytes_per_second"], out) and rounds_to(row["in_gigabytes_per_second"], into), f"{name}: {row}")
    checks = re.findall(r"^  (exact|ring) +(\S+) +(\d+) +(\d+)$", printed, re.M)
    expect([check[0] for check in checks] == [row["planner"] for row in document["all_reduces"]], f"{name}: {checks}")
    for (_, rate, predicted, measured), row in zip(checks, document["all_reduces"]):
        expect(f"{row['gigabytes_per_second']:.4g}" == rate and rounds_to(row["predicted_microseconds"], predicted)
               and rounds_to(row["measured_microseconds"], measured), f"{name}: {row}")
    links = re.findall(r"^  (\d+) -> (\d+): (\S+) GB/s, described (\S+)$", printed, re.M)
    shown = [(str(row["from"]), str(row["to"]), f"{row['gigabytes_per_second']:.4g}",
              f"{row['described_gigabytes_per_second']:.4g}") for row in document["links"]]
    expect(shown == links, f"{name}: links {links}, {shown}")
    return document


def main():
    blink, folder = sys.argv[1], Path(sys.argv[2])
    compare(blink, folder, "compared", "dgx1v")
    compare(blink, folder, "compared_parts", "dgx1v", "--ranks", "0-5", "-c", "broadcast", "--root", "2")
    printed, one = tables_of(blink, folder, "compared_one", "dgx1v", "--ranks", "3", "--compare")
    expect("nothing to move" in printed and one["rows"] == [] and one["ranks"] == [3], "one rank has a table")

    # Foreign text: the name of a machine is in what planners refuse.
    name = 'a, "b"\r\n=c;\x1b[31md'
    foreign = folder / "foreign.json"
    subprocess.run([blink, "topo", "ring:4", "--convert", "json", "--out", foreign], check=True,
                   stdout=subprocess.DEVNULL)
    machine = json.loads(foreign.read_text())
    machine["name"] = name
    foreign.write_text(json.dumps(machine))
    document = compare(blink, folder, "compared_foreign", foreign)
    expect(document["machine"] == name, f"foreign: the machine is {document['machine']!r}")
    expect(any(name in (row["refused"] or "") for row in document["rows"]), "foreign: no planner names the machine")
    odd = bytes(folder) + b"/odd\xff.xml"
    subprocess.run([blink, "topo", "dgx1v_pcie", "--convert", "nccl", "--out", odd], check=True, stdout=subprocess.DEVNULL)
    for command in ("plan", "simulate"):
        values = folder / f"odd_{command}.json"
        more = ["--compare"] if command == "plan" else ["--sizes", "1K", "--events", folder / "odd_events.json"]
        subprocess.run([blink, command, odd, "--json", values, *more], check=True, stdout=subprocess.DEVNULL)
        expect("\ufffd" in json.loads(values.read_text(encoding="utf-8"))["machine"], f"{command}: a name that is no UTF-8")

    shown, document = groups(blink, folder, "groups", "dgx1v", "--groups", "0-3/all_gather:4-6", "--compare")
    expect(shown == 2 and len(document["rows"]) == 2, "groups: not two rows")
    shown, document = groups(blink, folder, "many_groups", "dgx_a100:17", "--groups", "of=2", "-c", "all_gather")
    expect(shown == 64 and len(document["rows"]) == 68, f"groups: {shown} lines, {len(document['rows'])} rows")

    printed, document = tables_of(blink, folder, "frontier", "dgx1v", "-c", "all_gather", "--frontier", "5")
    lines = lines_after(printed, "trees per root")
    expect(len(lines) == len(document["rows"]) > 1, "frontier: rows")
    for line, row in zip(lines, document["rows"]):
        trees, rate, share = line.split()
        exact(row, "rate", rate)
        expect(row["trees_per_root"] == int(trees) and rounds_to(100 * row["share_of_bound"], share[:-1]), f"frontier: {line}")
    exact(document, "bound", re.search(r"bound \S+ GB/s \((\S+)\)", printed)[1])

    printed, document = tables_of(blink, folder, "hints", "dgx1v", "--max-trees", "3", "--max-height", "4")
    lines = lines_after(printed, "restriction rate")
    expect(len(lines) == len(document["rows"]) == 3, "hints: rows")
    for line, row in zip(lines, document["rows"]):
        restriction, rate, cost, most = re.fullmatch(r"  (.*?) +(\S+) +(\S+)% +(\S+)", line).groups()
        exact(row, "rate", rate)
        exact(row, "bound", most)
        expect(row["restriction"] == restriction and rounds_to(100 * row["share_lost"], cost), f"hints: {line}")

    expect(len(topo(blink, folder, "paths", "dgx1v_pcie")) == 56, "paths of 8 ranks")
    expect(len(topo(blink, folder, "paths_apart", "dgx1v", "--ranks", "0,1,7")) == 2, "paths of 3 ranks, one apart")
    expect(topo(blink, folder, "no_paths", "dgx1v", "--ranks", "0") == [], "paths of one rank")

    found = probe(blink, folder, "probe", "-g", "3", "--bytes", "64K", "--seconds", "0.5")
    expect(found["bytes"] == 65536 and len(found["pairs"]) == 6 and len(found["all_reduces"]) == 2, "probe: rows")
    found = probe(blink, folder, "processes", "--bytes", "64K", "--seconds", "0.5", before=[blink, "run", "-n", "2", "--"])
    expect(len(found["pairs"]) == 2 and len(found["ranks"]) == 2, "probe of processes: rows")
    (folder / "fast.txt").write_text("0 1e5\n1e5 0\n")
    found = probe(blink, folder, "slow", folder / "fast.txt", "--bytes", "64K", "--seconds", "0.5")
    expect([row["found"] for row in found["links"]] == ["slower", "slower"], "probe: slow links")
    if len(sys.argv) > 3:  # a program that measures two GPUs
        os.environ["BLINK_PROBE_GPUS"] = sys.argv[3]
        (folder / "gpus.txt").write_text("0 20\n20 0\n")
        found = probe(blink, folder, "gpus", "--gpus", folder / "gpus.txt")
        expect([row["gigabytes_per_second"] for row in found["pairs"]] == [20, 10] and len(found["links"]) == 1, "GPUs: rows")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
