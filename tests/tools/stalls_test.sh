#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests `blink stalls` on a training loop, and on programs that write made records.
# usage: stalls_test.sh PROGRAM BLINK [PROGRAM_OF_HOSTS]
# PROGRAM is training_loop.cpp, PROGRAM_OF_HOSTS the same over UCX. The hosts are this machine (host_shell.sh).
. "$(dirname "$0")/expect.sh"
program=$(realpath "$1")
blink=$(realpath "$2")
of_hosts=${3:+$(realpath "$3")}
shell=$(realpath "$(dirname "$0")/host_shell.sh")
mkdir "$work/tmp"
export TMPDIR="$work/tmp"
tools=$(realpath "$(dirname "$0")")
cd "$work" || exit 1

fail() {
  failures=$((failures + 1))
  echo "FAILED $1"
  sed 's/^/  | /' "$work/out" "$work/err" | head -60
}
of() {  # of NAME STATUS PATTERN ARGUMENT...: `expect` of blink stalls, which leaves no folder behind
  name=$1 status=$2 pattern=$3
  shift 3
  expect "$name" "$status" "$pattern" "$blink" stalls "$@"
  for left in "$work/tmp"/* "$work"/blink-stalls-*; do
    [ -e "$left" ] && fail "$name: $left is left behind"
  done
}
shows() { grep -q -- "$2" "$work/out" || fail "$1: no line with '$2'"; }

# A program that writes records as one rank: STEPS steps of an all-reduce of 1 MB, 300 us, and one of 4 KB, 100 us,
# after a broadcast. A step takes 1000 us alone, 1250 with two ranks, 2000 with four. The last rank enters
# late by 40 us. Traffic and time differ with BLINK_TUNING.
cat >fake <<'FAKE'
#!/bin/sh
awk -v rank="$BLINK_RANK" -v ranks="$BLINK_RANK_COUNT" -v steps="${1:-8}" -v tuned="${BLINK_TUNING:+1}" -v same="$SAME" '
function call(collective, count, begin, us, late,   peer, sent) {
  for (peer = 0; peer < ranks; ++peer) {
    if (rank != 0 && peer != 0 && !tuned || peer == rank) continue;
    sent = sent (sent ? "," : "") "[" peer "," (tuned && !same ? 2 * count : 4 * count) "]"
  }
  printf "{\"collective\":\"%s\",\"rank\":%d,\"ranks\":%d,\"plan\":\"0\",\"count\":%d,\"element_bytes\":4,", collective, rank, ranks, count
  printf "\"types\":\"\",\"ok\":true,\"way\":\"trees\",\"sent_bytes\":4,\"received_bytes\":4,\"waited_for_peers_us\":%d,", late
  printf "\"waited_to_receive_us\":20,\"waited_to_send_us\":0,\"host\":\"%s\",\"core\":%d,", rank < 2 ? "a" : "b", rank
  printf "\"to_peers\":[%s],\"on_links\":[],\"begin_us\":%d,\"us\":%d}\n", sent, begin, us
}
BEGIN {
  step = ranks == 1 ? 1000 : ranks == 2 ? 1250 : 2000
  if (tuned) step -= 100
  call("broadcast", 10, 0, 10, 0)
  for (i = 0; i < steps; ++i) {
    call("all_reduce", 250000, 1000 + i * step, 300, rank + 1 < ranks ? 40 : 0)
    call("all_reduce", 1000, 1500 + i * step, 100, 0)
  }
}' >"${BLINK_RECORD_FILE%/*}/fake.$BLINK_RANK.jsonl"
FAKE
chmod +x fake

of "made records" 0 '^  alone  *1  *5  *1 ms$' -n 2 --json all.json -- ./fake
shows "made records" '^./fake: 2 calls an iteration, from call 2 of 17 on$'
shows "the interconnect stall" '^  one host  *2  *5  *1.25 ms  interconnect 250.0 us, 25.0%$'
shows "a call" '^  *1 all_reduce  *1000000  *300.0 us  24.0%  *40.0 us  *6.7%  *6.7%  *0.0%  0 -> 1$'
shows "all calls" '^  *all  *400.0 us  32.0%  *60.0 us$'
shows "a pair of ranks" '^  1 -> 0  *5020000  *2.510  *-$'
shows "the late rank" '^rank 1 late in 5 of 10 calls, by 40.0 us$'
of "a file that exists" 2 'all.json exists' -n 2 --json all.json -- ./fake
of "hosts" 0 '^  hosts  *4  *5  *2 ms  network 750.0 us, 60.0%$' --hosts a:2,b:2 --shell "$shell" --json hosts.json -- ./fake
shows "hosts" '^  one host  *2  *5  *1.25 ms  interconnect 250.0 us, 25.0%$'
shows "hosts" '^no predictions: machine .host. has .* (--machine)$'
of "one rank on each host" 0 '^  hosts  *2  *5  *1.25 ms  network 250.0 us, 25.0%$' --hosts a,b -n 2 --shell "$shell" -- ./fake
of "a folder" 0 'interconnect 250.0 us' -n 2 --folder . -- ./fake
mkdir 'half%p'
of "a folder with a percent sign" 0 'interconnect' -n 2 --folder 'half%p' -- "$program" 8
[ -z "$(ls 'half%p')" ] || fail "a folder with a percent sign: something is left behind"

# Predictions: a plan in use that has one root, beside the best one, and faster links.
of "a plan in use" 0 'flat  ' -n 4 -m dgx1v -r 0-3 --json plans.json -- ./fake
shows "faster links" '^  with nvlink links twice as fast  *1.[0-9]* ms an iteration, [1-9]'
of "tried" 0 '^  *iteration  *2 ms  *1.[0-9]* ms  *1.9 ms$' -n 4 -m dgx1v -r 0-3 --try --json tried.json -- ./fake
of "tables" 0 '^tried with the best plans$' -n 4 -m dgx1v -r 0-3 --try --json tables.json --csv tables -- ./fake
cp "$work/out" shown
of "tables that exist" 2 'tables/runs.csv exists, expected a new file' -n 2 --csv tables -- ./fake
mkdir some && echo kept >some/tried.csv
of "a table that exists" 2 'some/tried.csv exists, expected a new file' -n 2 --json none.json --csv some -- ./fake
[ "$(ls some)" = tried.csv ] && [ ! -e none.json ] || fail "a table that exists: others were written"
of "a folder that is replaced" 0 'interconnect' -n 2 --csv some --force -- ./fake
[ "$(ls some | tr '\n' ' ')" = "calls.csv gains.csv links.csv predictions.csv runs.csv tried.csv " ] || fail "a folder: $(ls some)"
[ -z "$(cat some/tried.csv)" ] || fail "a folder that is replaced: a table of an earlier run"
of "a file in the place of a folder" 2 'all.json: is no folder' -n 2 --csv all.json -- ./fake
of "no folder for tables" 2 'no/such: cannot be made, expected a folder' -n 2 --json none.json --csv no/such -- ./fake
[ ! -e none.json ] && [ -z "$(find . -name '*.new*' -o -name '*.part*')" ] || fail "no folder for tables: something is written"
name=$(printf 'odd,\377"name\n')
cp fake "$name"
of "a program whose name is no text" 0 'interconnect' -n 2 --json odd.json -- "./$name"
of "tried with the same bytes" 0 '^--try: the bytes between ranks are as before' -n 2 --env SAME=1 -m dgx1v -r 0,1 --try -- ./fake
of "a program that has no plans from outside" 9 '^--try: the program failed with the plans in BLINK_TUNING' \
  -n 2 -m dgx1v -r 0,1 --try -- sh -c '[ -z "$BLINK_TUNING" ] || exit 9; exec ./fake'
shows "what was found before" 'interconnect 250.0 us, 25.0%$'
of "a machine of other ranks" 2 "dgx1v: 8 ranks, expected 2" -n 2 -m dgx1v -- ./fake
of "no such machine" 2 'nothing' -n 2 -m nothing -- ./fake
python3 - <<'CHECK' || { failures=$((failures + 1)); echo "FAILED: the JSON"; }
import json
all = json.load(open("all.json"))
assert all["blink_stalls"] == 1 and all["program"] == ["./fake"]
assert [(run["run"], run["ranks"], run["iteration_microseconds"]) for run in all["runs"]] == [("alone", 1, 1000), ("one host", 2, 1250)]
assert all["interconnect_stall"] == {"microseconds": 250, "share": 0.25} and "network_stall" not in all
run = all["runs"][1]
assert (run["calls"], run["first_call"], run["calls_per_iteration"], run["iterations"], run["counted_iterations"]) == (17, 1, 2, 8, 5)
first = run["buckets"][0]
assert (first["collective"], first["bytes"], first["microseconds"], first["busiest_link"]) == ("all_reduce", 1000000, 300, "0 -> 1")
assert [first["mean_microseconds"] * first[share] for share in ("share_for_peers", "share_to_receive", "share_to_send")] == [20, 20, 0]
assert [link["link"] for link in run["links"]] == ["0 -> 1", "1 -> 0"]
hosts = json.load(open("hosts.json"))
assert hosts["network_stall"] == {"microseconds": 750, "share": 0.6} and "advice" not in hosts and hosts["no_advice"]
plans = json.load(open("plans.json"))["advice"]
assert plans["run"] == "one host" and len(plans["buckets"]) == 2, plans
for bucket in plans["buckets"]:
    assert bucket["in_use"]["plan"] == "flat", bucket
    assert bucket["best"]["microseconds"] < 0.9 * bucket["in_use"]["microseconds"], bucket
    assert bucket["microseconds_with_links_twice_as_fast"]["nvlink"] < bucket["in_use"]["microseconds"], bucket
assert [gain["with"] for gain in plans["gains"]] == ["the best plans", "nvlink links twice as fast", "pcie links twice as fast"][:len(plans["gains"])]
assert plans["gains"][0]["iteration_microseconds"] < 2000
assert json.load(open("odd.json"))["program"] == ["./odd,\ufffd\"name"]
tried = json.load(open("tried.json"))
assert tried["tried"]["iteration_microseconds"] == 1900 and "about_try" not in tried
CHECK

# The printed tables beside --json and --csv.
PYTHONPATH=$tools python3 - <<'CHECK' || { failures=$((failures + 1)); echo "FAILED: the tables"; }
import json
import re
from printed_tables import expect, failures, lines_after, rounds_to, same_rows


def same_time(microseconds, text):
    number, unit = text.split()
    shown = rounds_to(microseconds, number) if unit == "us" else f"{microseconds / 1000:.3g}" == number
    expect(shown, f"{microseconds} us, printed {text}")


def same(*pairs):
    for value, text in pairs:
        if text.endswith("%"):
            expect(rounds_to(100 * value, text[:-1]), f"{value}, printed {text}")
        elif re.fullmatch(r"\S+ [um]s", text):
            same_time(value, text)
        else:
            expect(str("-" if value is None or value == "" else value) == text, f"{value}, printed {text}")


document = json.load(open("tables.json"))
shown = open("shown").read()
runs, advice = document["runs"], document["advice"]
for line, run in zip(lines_after(shown, "run ranks"), runs):
    name, ranks, iterations, median, rest = re.fullmatch(r"  (.{10}) +(\d+) +(\d+) +(\S+ .s)(.*)", line).groups()
    same((run["run"], name.strip()), (run["ranks"], ranks), (run["counted_iterations"], iterations))
    same_time(run["iteration_microseconds"], median)
    if rest:
        kind, time, share = re.fullmatch(r"  (\w+) (\S+ .s), (\S+)", rest).groups()
        same_time(document[kind + "_stall"]["microseconds"], time)
        same((document[kind + "_stall"]["share"], share))
run = runs[-1]
head = "bytes time share waiting peers receive send busiest"
*calls, everything = lines_after(shown, head)
expect(len(calls) == len(run["buckets"]) == 2, f"calls: {calls}")
for line, call in zip(calls, run["buckets"]):
    cells = re.fullmatch(r" +(\d+) (\S+) +(\d+) +(\S+ .s) +(\S+%) +(\S+ .s) +(\S+%) +(\S+%) +(\S+%)  (.*)", line).groups()
    keys = ("call", "collective", "bytes", "microseconds", "share_of_iteration", "waiting_microseconds", "share_for_peers",
            "share_to_receive", "share_to_send", "busiest_link")
    same(*[(call[key], cell) for key, cell in zip(keys, cells)])
time, share, waiting = re.fullmatch(r" +all +(\S+ .s) +(\S+%) +(\S+ .s)", everything).groups()
same((sum(call["microseconds"] for call in run["buckets"]), time), (sum(call["waiting_microseconds"] for call in run["buckets"]), waiting))
links = lines_after(shown, "bytes GB/s of rate")
expect(len(links) == len(run["links"]) > 0, f"links: {links}")
for line, link in zip(links, run["links"]):
    name, moved, rate, share = re.fullmatch(r"  (.{24}) +(\d+) +(\S+) +(\S+)", line).groups()
    same((link["link"], name.strip()), (link["bytes"], moved), (link["share_of_rate"], share))
    expect(rounds_to(link["gigabytes_per_second"], rate), line)
plans = lines_after(shown, "bytes measured plan in use")
expect(len(plans) == len(advice["buckets"]) == 2, f"predictions: {plans}")
kinds = list(advice["buckets"][0]["microseconds_with_links_twice_as_fast"])
for line, bucket in zip(plans, advice["buckets"]):
    found = re.fullmatch(r" +(\d+) (\S+) +(\d+) +(\S+ .s)  +(\S+ .s) (.{12,}?)  +(\S+ .s) (\S+(?: one-shot)?)" + r" +(\S+ .s)" * len(kinds), line)
    call, name, moved, measured, before, used, after, best, *faster = found.groups()
    same((bucket["call"], call), (bucket["collective"], name), (bucket["bytes"], moved), (bucket["microseconds"], measured),
         (bucket["in_use"]["microseconds"], before), (bucket["in_use"]["plan"], used.strip()),
         (bucket["best"]["microseconds"], after), (bucket["best"]["plan"], best),
         *zip(bucket["microseconds_with_links_twice_as_fast"].values(), faster))
gains = re.findall(r"^  with (.*?) +(\S+ .s) an iteration, (\S+) less$", shown, re.M)
expect(len(gains) == len(advice["gains"]) == 1 + len(kinds), f"gains: {gains}")
for (change, time, share), gain in zip(gains, advice["gains"]):
    same((gain["with"], change), (gain["iteration_microseconds"], time), (gain["share_saved"], share))
tried = document["tried"]["beside_prediction"]
lines = lines_after(shown + "\n", "bytes before predicted")
expect(len(lines) == len(tried) == 3, f"tried: {lines}")
for line, row in zip(lines, tried):
    times = re.findall(r"\S+ [um]s", line)
    same(*[(row[key + "_microseconds"], time) for key, time in zip(("before", "predicted", "measured"), times)])
    expect(row["collective"] in line, line)
same_rows([{"run": run["run"], **call} for run in runs[1:] for call in run["buckets"]], "tables/calls.csv")
same_rows([{"run": run["run"], **link} for run in runs[1:] for link in run["links"]], "tables/links.csv")
none = {"microseconds": None, "share": None}
same_rows([{**{key: value for key, value in run.items() if not isinstance(value, list)}, "network_stall": none,
            "interconnect_stall": document["interconnect_stall"] if run["run"] == "one host" else none} for run in runs],
          "tables/runs.csv")
same_rows(advice["buckets"], "tables/predictions.csv")
same_rows(advice["gains"], "tables/gains.csv")
same_rows(tried, "tables/tried.csv")
raise SystemExit(1 if failures else 0)
CHECK

# Options.
of "the number of calls" 0 '4 calls an iteration' -n 2 --calls-per-iteration 4 --warm-up 1 -- ./fake
of "too few iterations" 2 'one host: 2 iterations of 2 calls among 5 calls .*, expected at least 4 iterations' -n 2 -- ./fake 2
of "no iteration" 2 'no repeated sequence of 3 calls among 17 calls' -n 2 --calls-per-iteration 3 -- ./fake
of "several ranks only" 0 '^  one host' -n 2 --without-alone -- sh -c '[ $BLINK_RANK_COUNT = 2 ] || exit 7; exec ./fake'
grep -q alone "$work/out" && fail "several ranks only"
of "several ranks only" 7 'alone: the program failed with status 7' -n 2 -- sh -c '[ $BLINK_RANK_COUNT = 2 ] || exit 7; exec ./fake'
of "one rank" 2 'expected at least 2 (-n)' -n 1 -- ./fake
of "no folder" 2 'nowhere: no folder can be made there' -n 2 --folder nowhere -- ./fake
of "no program" 2 "cannot run './nothing'" -n 2 -- ./nothing
"$blink" stalls -n 4096 --help >/dev/null || fail "help"

# Programs whose records tell nothing.
of "no calls" 2 'one host: no recorded calls of 2 ranks (0 of others)' -n 2 -- true
of "calls of others" 2 'no recorded calls of 2 ranks (34 of others)' -n 2 -- env BLINK_RANK_COUNT=3 ./fake
of "no calls alone" 2 'alone: no recorded calls of 1 rank .* or --without-alone' -n 2 -- sh -c '[ $BLINK_RANK_COUNT = 1 ] || exec ./fake'
of "a rank without records" 2 'no records of rank 1 of 2' -n 2 -- sh -c '[ $BLINK_RANK = 1 ] || exec ./fake'
of "fewer calls" 2 'rank 1 ended 15 calls, rank 0 17, expected equal numbers' -n 2 -- sh -c './fake $((8 - BLINK_RANK))'
of "a record that is cut off" 2 'fake.1.jsonl, line 17: .*expected a record of BLINK_RECORD_FILE' -n 2 -- \
  sh -c './fake; [ $BLINK_RANK = 0 ] || truncate -s -20 "${BLINK_RECORD_FILE%/*}/fake.1.jsonl"'
of "a call that failed" 2 'call 3 of rank 1 (all_reduce) failed' -n 2 -- \
  sh -c './fake; [ $BLINK_RANK = 0 ] || sed -i "3s/true/false/" "${BLINK_RECORD_FILE%/*}/fake.1.jsonl"'
of "a program that fails" 5 'one host: the program failed with status 5' -n 2 -- sh -c 'exit 5'

# A signal ends the program and the command, and nothing is left behind.
"$blink" stalls -n 2 -- sh -c 'echo up; sleep 60' >"$work/out" 2>"$work/err" &
command=$!
wait_for 2 up "$work/out"
kill -TERM $command
wait $command
[ $? -eq 143 ] || fail "a signal: the status"
[ -z "$(ls "$work/tmp")" ] || fail "a signal: something is left behind"

# Programs of blink, which record without a line of their own.
expect "records" 0 '^.0. 3 steps$' "$blink" run -n 2 -x BLINK_RECORD_FILE="$work/own.%p.jsonl" -- "$program" 3
[ "$(cat own.*.jsonl | grep -c all_reduce)" -eq 18 ] || fail "records: not 9 calls of each rank"
expect "a wrong variable" 0 "no records of calls: BLINK_DEBUG is 'loud', expected none, warn or info" \
  "$blink" run -n 2 -x BLINK_DEBUG=loud -- "$program" 3
of "a training loop" 0 ': 3 calls an iteration, from call 2 of ' -n 2 -- "$program" 8
shows "a training loop" '^  *1 all_reduce  *1200000 .*  0 -> 1$'
shows "its plan" '^  *1 all_reduce  *1200000 .* star '
of "a better plan is tried" 0 '^tried with the best plans$' -n 2 -m dgx1v -r 0,1 --try -- "$program" 8
if [ -n "$of_hosts" ]; then
  of "hosts of UCX" 0 '^  hosts  *4  *5 .* network ' --hosts a:2,b:2 --shell "$shell" -- "$of_hosts" 8
fi

report
