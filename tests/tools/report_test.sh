#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests `blink report`: on records of `blink perf` and on records made here, and the data of its pages about machines,
# plans and programs, each number against other commands. usage: report_test.sh BLINK DATA
. "$(dirname "$0")/expect.sh"
blink=$1
data=$2

of() {  # of NAME STATUS PATTERN ARGUMENT...: `expect` of blink report
  name=$1 status=$2 pattern=$3
  shift 3
  expect "$name" "$status" "$pattern" "$blink" report "$@"
}
# record RANK HOST CORE BEGIN FOR_PEERS [LINK BYTES]: a call of 100 us of one of three ranks
record() {
  links=
  [ $# -gt 5 ] && links="[0,\"$6\",1e9,$7]"
  printf '{"collective":"all_reduce","rank":%d,"ranks":3,"plan":"0","count":1,"element_bytes":4,"types":"","ok":true,' "$1"
  printf '"way":"trees","sent_bytes":4,"received_bytes":4,"waited_for_peers_us":%s,"waited_to_receive_us":1.0,' "$5"
  printf '"waited_to_send_us":2.0,"host":"%s","core":%d,"to_peers":[],"on_links":[%s],"begin_us":%s,"us":100.0}\n' \
    "$2" "$3" "$links" "$4"
}

BLINK_RECORD_FILE="$work/perf.jsonl" "$blink" perf dgx1v --ranks 0,1,2,3 --shaped 0.0005 -b 64K -e 64K -n 4 -w 0 \
  >/dev/null || { failures=$((failures + 1)); echo "FAILED: blink perf"; }
of "a plan on slow links" 0 '^  nvlink [0-3]-[0-3]  *[1-9][0-9]* ' "$work/perf.jsonl"
of "a plan on slow links" 0 '^nvlink on [0-9]* of [0-9]* links, busiest nvlink [0-3]-[0-3] at [0-9]* % of its rate; ' "$work/perf.jsonl"

# Rank 2 is late by 60 us in three calls of four, on a host whose clock is another; ranks 0 and 1 share a core.
for call in 1 2 3 4; do
  late=60
  [ $call = 4 ] && late=0
  record 0 a 1 "$((call * 1000))" "$late.5" "wire 0-1" 10000 >>"$work/a.jsonl"
  record 1 a 1 "$((call * 1000 + 1))" "$late.0" >>"$work/a.jsonl"
  record 2 b 1 "$((call * 1000 + 777777))" 0.0 >>"$work/b.jsonl"
done
of "late" 0 '; rank 2 late in 3 of 4 calls, by 60.5 us; ranks 0 and 1 shared a core in 4 calls$' "$work/a.jsonl" "$work/b.jsonl"
of "links" 0 '^  wire 0-1  *40000  *0.100  *10.0%$' "$work/a.jsonl" "$work/b.jsonl"
of "links in the verdict" 0 '^wire on 1 of 1 links, busiest wire 0-1 at 10 % of its rate; ' "$work/a.jsonl" "$work/b.jsonl"
of "one trace" 0 'rank 2 late' "$work/a.jsonl" "$work/b.jsonl" --trace "$work/trace.json"
python3 - "$work/trace.json" <<'CHECK' || { failures=$((failures + 1)); echo "FAILED: the trace"; }
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
calls = [e for e in events if e["ph"] == "X"]
assert len(calls) == 12 and {e["pid"] for e in calls} == {0, 1} and {e["tid"] for e in calls} == {0, 1, 2}
first = [e["ts"] + e["dur"] for e in calls if e["args"]["begin_us"] in (1000, 1001, 778777)]
assert max(first) - min(first) <= 1, first  # the clocks of the hosts are joined
assert sum(link[3] for e in calls for link in e["args"]["on_links"]) == 40000
assert {e["args"]["name"] for e in events if e["ph"] == "M"} >= {"host a", "host b", "rank 2"}
CHECK

of "a rank is missing" 2 'no records of rank 2 of 3' "$work/a.jsonl"
of "no file" 2 'nothing.jsonl: cannot be read' "$work/nothing.jsonl"
echo 'no record' >"$work/wrong.jsonl"
of "no record" 2 'wrong.jsonl, line 1: .*expected a record of BLINK_RECORD_FILE' "$work/wrong.jsonl"
: >"$work/empty.jsonl"
of "an empty file" 2 'no records' "$work/empty.jsonl"
sed 's/all_reduce/barrier/' "$work/b.jsonl" >"$work/other.jsonl"
of "other calls" 2 'call 1 of rank 2 is barrier' "$work/a.jsonl" "$work/other.jsonl"
head -n 2 "$work/b.jsonl" >"$work/short.jsonl"
of "a rank that ended early" 0 'rank 0 ended 2 calls more than others' "$work/a.jsonl" "$work/short.jsonl"
of "a trace that cannot be written" 2 'cannot be written' "$work/a.jsonl" "$work/b.jsonl" --trace /nowhere/trace.json

# Pages. The data in a page is that of --json; report_data.py compares both with other commands.
python3 "$(dirname "$0")/report_data.py" "$blink" "$data" "$work" || failures=$((failures + 1))

"$blink" plan dgx1v --out "$work/whole.json" >/dev/null
"$blink" plan dgx1v -c broadcast --out "$work/broadcast.json" >/dev/null
"$blink" plan dgx1v --msccl "$work/program.xml" >/dev/null
page() {  # page NAME STATUS PATTERN ARGUMENT...: the same with the page $work/page.html, which is removed
  name=$1 status=$2 pattern=$3
  shift 3
  of "$name" "$status" "$pattern" "$@" -o "$work/page.html"
  if [ "$status" -ne 0 ] && [ -e "$work/page.html" ]; then
    failures=$((failures + 1))
    echo "FAILED $name: a page was written"
  fi
  rm -f "$work/page.html"
}
page "a machine" 0 'times the best ring' dgx1v
page "a plan" 0 '^written: .*page.html' dgx1v "$work/whole.json"
page "a plan in the other order" 0 '^written: ' "$work/whole.json" dgx1v
page "a program" 0 'sound: every contribution arrives exactly once' "$work/program.xml" dgx1v
page "records" 0 'rank 2 late in 3 of 4 calls' "$work/a.jsonl" "$work/b.jsonl"
page "a barrier" 0 'moves no data' dgx1v -c barrier
page "one rank" 0 'nothing to move' dgx1v --ranks 2
page "a plan of another machine" 2 'does not fit the machine .dgx2.*expected a plan that was made for it' dgx2 "$work/whole.json"
page "a plan before of another machine" 2 'does not fit' dgx1p --diff "$work/whole.json"
page "a plan before of another collective" 2 'plans broadcast, expected all_reduce' dgx1v --diff "$work/broadcast.json"
page "a plan alone" 2 'a plan without its machine' "$work/whole.json"
page "two machines" 2 'is a machine as dgx1v is, expected one of them' dgx1v dgx2
page "records beside a machine" 2 'records beside another input' "$work/a.jsonl" dgx1v
page "a program beside a plan" 2 'a program beside a plan' dgx1v "$work/whole.json" "$work/program.xml"
page "no such machine" 2 'unknown machine' dgx9v
page "no such file" 2 'cannot be read, expected a machine, a plan file' "$work/none.json"
page "ranks without a path" 2 'expected' dgx1v --ranks 0,5
page "a trace of a machine" 2 'trace without records' dgx1v --trace "$work/t.json"
"$blink" plan dgx1v --groups 0-3/4-7 --out "$work/groups.json" >/dev/null
page "plans of groups" 2 'expected the plan of one collective' dgx1v "$work/groups.json"
page "no bytes" 2 'expected at least 1 byte' dgx1v --bytes 0
sed 's/"blink_plan": 1/"blink_plan": 7/' "$work/whole.json" >"$work/later.json"
page "a plan of a later format" 2 'found format 7' dgx1v "$work/later.json"
sed 's/type="rrc"/type="r"/' "$work/program.xml" >"$work/unsound.xml"
page "an unsound program" 0 'not sound: ' "$work/unsound.xml"
head -c 700 "$work/program.xml" >"$work/cut.xml"
page "a program that is cut off" 2 'cut.xml' "$work/cut.xml"

echo kept >"$work/old.html"
of "a file that exists" 2 'old.html exists, expected a new file, or --force' dgx1v -o "$work/old.html"
of "a file that is replaced" 0 '^written: ' dgx1v -o "$work/old.html" --force
of "a folder that is not there" 2 'cannot be made, expected a folder' dgx1v -o "$work/no/such/page.html"
of "a folder in the place of a page" 2 'is a folder, expected a file' dgx1v -o "$work"
of "a file in the place of a folder" 2 'expected' dgx1v -o "$work/new.html" --csv "$work/old.html"
[ ! -e "$work/new.html" ] || { failures=$((failures + 1)); echo "FAILED: a page was written beside tables that were not"; }
mkdir "$work/tables"
echo kept >"$work/tables/trees.csv"
of "a table that exists" 2 'trees.csv exists, expected a new file' dgx1v -o "$work/new.html" --csv "$work/tables"
[ "$(ls "$work/tables")" = trees.csv ] || { failures=$((failures + 1)); echo "FAILED: some tables were written"; }
[ -z "$(find "$work" -name '*.new*' -o -name '*.part*')" ] || { failures=$((failures + 1)); echo "FAILED: parts of files stay"; }
(cd "$work" && of "a page by default" 0 '^written: report.html' ring:4 && of "not twice" 2 'report.html exists' ring:4)

report
