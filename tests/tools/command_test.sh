#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests the command blink by its output. usage: command_test.sh BLINK DATA
set -u
self=$(realpath "$0")
blink=$(realpath "$1")
data=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# ok NAME PATTERN COMMAND...: expects status 0 and the pattern on standard output.
ok() {
  name=$1 pattern=$2
  shift 2
  if "$@" >out 2>err && grep -q -- "$pattern" out; then return; fi
  failures=$((failures + 1))
  printf 'FAILED %s: %s\n  expected status 0 and "%s"\n' "$name" "$*" "$pattern"
  sed 's/^/  | /' out err | head -20
}
# refused NAME PATTERN COMMAND...: expects status 2, and one or two lines on standard error, with
# the pattern.
refused() {
  name=$1 pattern=$2
  shift 2
  "$@" >out 2>err
  status=$?
  if [ $status -eq 2 ] && grep -q -- "$pattern" err && [ "$(wc -l <err)" -le 2 ]; then return; fi
  failures=$((failures + 1))
  printf 'FAILED %s: %s\n  expected status 2 and at most two lines with "%s", got status %d\n' \
    "$name" "$*" "$pattern" $status
  sed 's/^/  | /' err | head -20
}

ok help "MACHINE" "$blink" --help
for command in topo plan perf tune check simulate run; do ok "help $command" "Usage" "$blink" $command --help; done
ok version "blink [0-9]" "$blink" --version

ok "all-reduce of the allocation" "62.5 GB/s" "$blink" plan "$data/dgx1v.xml" --ranks 0,1,2,3,4,5
ok "broadcast of the allocation" "75 GB/s" "$blink" plan "$data/dgx1v.xml" --ranks 0-5 -c broadcast
ok "built-in machine" "600/7" "$blink" plan dgx1v --out plan.json
ok "plan file is sound" "sound" "$blink" check dgx1v plan.json
ok "many trees are a summary" "(--all shows each tree)" "$blink" plan dgx_a100:16 -c all_gather
ok "each of many trees" " 127   " "$blink" plan dgx_a100:16 -c all_gather --all
ok "all planners" "double_tree" "$blink" plan dgx1v --compare
ok "picture" "picture written" "$blink" plan dgx1p --svg picture.svg
ok "svg" "</svg>" cat picture.svg
for collective in broadcast reduce all_reduce all_gather reduce_scatter; do
  for machine in dgx1v dgx2 ring:5 dgx_h100; do
    ok "$collective on $machine" "100.0 %" "$blink" plan $machine -c $collective --out p.json --force
    ok "$collective on $machine is sound" "sound" "$blink" check $machine p.json
  done
done

for collective in broadcast reduce all_reduce all_gather reduce_scatter; do
  ok "$collective as MSCCL" "algorithm written" "$blink" plan dgx2 -c $collective --msccl a.xml --force --instances 4
  ok "$collective as MSCCL is sound" "rate/bound 100.0 %" "$blink" check a.xml --machine dgx2
  ok "$collective of the older runtime" "written" "$blink" plan dgx1v -c $collective --msccl b.xml --force --dialect legacy
  ok "$collective of the older runtime is sound" "sound, in place and out of place" "$blink" check b.xml
done
for collective in broadcast reduce all_reduce all_gather reduce_scatter; do
  ok "$collective as MSCCL++" "execution plan written" "$blink" plan dgx_a100:2 -c $collective --mscclpp m.json --force
  ok "$collective as MSCCL++ is sound" "sound, in place" "$blink" check m.json --machine dgx_a100:2
  ok "$collective of RCCL" "written" "$blink" plan dgx_a100:2 -c $collective --msccl a.xml --force --dialect rccl
done
ok "all_to_all as MSCCL and MSCCL++" "execution plan written" "$blink" plan dgx1v -c all_to_all --msccl a.xml --force --mscclpp m.json
ok "all_to_all as MSCCL is sound" "rate/bound 100.0 %" "$blink" check a.xml --machine dgx1v
ok "all_to_all as MSCCL++ is sound" "bound .* rate/bound" "$blink" check dgx1v m.json
cp m.json renamed.xml
cp a.xml renamed.json
for collective in all_reduce reduce scatter all_to_all; do
  ok "$collective as GOAL and Chakra" "GOAL schedule written to a.goal" "$blink" plan dgx1v -c $collective --bytes 1M --slices 4 --goal a.goal --chakra trace --force
  ok "$collective as GOAL is sound" "rate/bound 100.0 %" "$blink" check a.goal --machine dgx1v
  ok "$collective as Chakra is sound" "program      Chakra, .* messages" "$blink" check trace.3.et
done
cp a.goal renamed.txt
ok "GOAL by its contents" "program      GOAL" "$blink" check renamed.txt
refused "a trace over another" "trace.0.et exists" "$blink" plan dgx1v --bytes 1M --chakra trace
refused "GOAL without a size" "--bytes" "$blink" plan dgx1v --goal b.goal
refused "GOAL of nothing" "expected more than 0 bytes" "$blink" plan dgx1v --bytes 0 --goal b.goal
sed -i 's/^l3: send \(.*\) tag /l3: send \1 tag 9/' a.goal
refused "a lost message" "and that rank has no such " "$blink" check a.goal
mv trace.2.et other.et
refused "a trace with a rank missing" "trace.2.et: cannot be opened" "$blink" check trace.7.et
refused "a trace of another name" "expected a name such as PREFIX.0.et" "$blink" check other.et
ok "MSCCL++ by its contents" "sound, out of place" "$blink" check renamed.xml
ok "MSCCL by its contents" "channels" "$blink" check renamed.json
sed 's/"name": "wait"/"name": "nop"/' m.json >c.json
refused "broken execution plan" "rank .*, block .*, operation" "$blink" check c.json
refused "execution plan of other ranks" "8 ranks, the machine" "$blink" check dgx2 m.json
refused "no such MSCCL" "step programs have no send_to_next" "$blink" plan dgx1v -c send_to_next --msccl a.xml --force
ok "a loop for each tree" '"pipeline"' cat m.json
refused "no such MSCCL++" "MSCCL++ has no gather" "$blink" plan dgx2 -c gather --mscclpp m.json --force
refused "too many instances" "thread blocks: 121, at most 108" "$blink" plan dgx2 -c all_gather --msccl a.xml --force --instances 8
refused "algorithm of other ranks" "8 ranks, the machine" "$blink" check dgx2 b.xml
sed 's/type="s" srcbuf="i" srcoff="0"/type="s" srcbuf="i" srcoff="999"/' b.xml >c.xml
refused "broken algorithm" "rank .*, block .*, step .*, chunk 999" "$blink" check c.xml
refused "two machines" "expected one of them" "$blink" check dgx2 b.xml --machine dgx1v
refused "no machine" "a machine before a plan file" "$blink" check plan.json

ok "sizes" "fastest from size on" "$blink" plan dgx2 -c broadcast --sizes 8:64M --json sizes.json --csv sizes.csv
ok "sizes as CSV" "^bytes,fastest,microseconds," cat sizes.csv
ok "a size as CSV" "^1024," cat sizes.csv
ok "sizes as JSON" '"fastest_from"' cat sizes.json
ok "simulation" "predicted us" "$blink" simulate dgx1v --sizes 1K:1M
ok "simulation of a plan file" "by exact" "$blink" simulate dgx1v --plan plan.json --sizes 1M --chunk 16K
ok "links with a rate" "1M" "$blink" simulate ring:5 --unit-rate 25 --sizes 1M
ok "simulation in one shot" "one-shot: .* 21.4286" "$blink" simulate dgx1v --one-shot --sizes 1K
refused "another collective in one shot" "found broadcast, expected all_reduce" "$blink" simulate dgx1v -c broadcast --one-shot
refused "another plan in one shot" "expected reduce_scatter" "$blink" simulate dgx1v --plan plan.json --one-shot
refused "simulation of a barrier" "moves no data" "$blink" simulate dgx1v -c barrier
ok "fair sharing" "links shared at fair rates" "$blink" simulate dgx1v --sharing fair --sizes 1M
ok "trouble" "one chunk after the other, noise 1:0.1, 1 slow rank, 1 late rank, 1 change of links" "$blink" simulate dgx1v --sizes 1M --reduce-rate 100 --noise 1:0.1 --slow-rank 3:2 --late-rank 4:100 --degrade 0-1@50:0.5
ok "chunks of the runtime" "1M" "$blink" simulate dgx1v --sizes 1M --chunk runtime
ok "a failed link and a detour" "link 0 -> 1 lost chunk .* a plan takes over: " "$blink" simulate dgx1v --sizes 1M --degrade 0-1@20:0 --repair --json detour.json --csv detour.csv
ok "a detour as JSON" '"taken_over_by"' cat detour.json
ok "a detour as CSV" "lost.link,lost.microseconds,lost.tree" cat detour.csv
ok "events" "1M" "$blink" simulate dgx1v --sizes 1M --events events.json
ok "events as JSON" '"blink_events":1.*"crossings":' cat events.json
refused "a failed link" "link 0 -> 1 has failed, and chunk .* of tree .* is lost at" "$blink" simulate dgx1v --sizes 1M --degrade 0-1@20:0
refused "a failed link without a detour" "no plan takes over" "$blink" simulate line:3 --unit-rate 1 --sizes 1M --degrade 0-1@20:0 --repair
refused "events of several sizes" "expected one, as in --sizes 1M" "$blink" simulate dgx1v --sizes 1M:2M --events all.json
refused "a slow rank that is not there" "rank 9 is slow, expected a rank of the plan" "$blink" simulate dgx1v --sizes 1M --slow-rank 9:2
refused "a slow rank without a factor" "--slow-rank: found '3', expected RANK:FACTOR" "$blink" simulate dgx1v --sizes 1M --slow-rank 3
refused "a link that is not there" "link 0 -> 5 changes, expected a link that the plan may use" "$blink" simulate dgx1v --sizes 1M --degrade 0-5@1:0.5
refused "a degraded link without a time" "--degrade: found '0-1', expected FROM-TO@US:FACTOR" "$blink" simulate dgx1v --sizes 1M --degrade 0-1
refused "noise that is no number" "--noise: found '1:x', expected SEED:SHARE" "$blink" simulate dgx1v --sizes 1M --noise 1:x
refused "parts of elements" "expected whole elements of 4 bytes" "$blink" simulate dgx1v --sizes 9 --chunk runtime
ok "all links beside the fastest kind" "all links give .*from .* (--links all)" "$blink" plan dgx1v_pcie -c all_gather
ok "all links for a large buffer" "nvlink alone gives" "$blink" plan dgx1v_pcie -c all_gather --bytes 1G
ok "the fastest kind for a small buffer" "links: nvlink only" "$blink" plan dgx1v_pcie -c all_gather --bytes 1K
refused "more memory than there is" "memory of this process" sh -c 'ulimit -v 60000; exec "$1" plan dgx_a100:128' sh "$blink"
ok "low trees" "max_height 3 " "$blink" plan dgx1v -c broadcast --root 0 --max-height 3
ok "frontier" "93.3%" "$blink" plan dgx1v -c all_gather --frontier 10
printf '{"blink_hints": 1, "forwarding_ranks": [7], "forbidden_links": [[0, 3]], "shares": {"0": 2}}' >hints.json
ok "hints" "forbidden_links" "$blink" plan dgx1v -c all_gather --hints hints.json --out hinted.json
ok "hinted plan is sound" "sound" "$blink" check dgx1v hinted.json
printf '{"blink_hints": 1, "shares": {"0": 1000000000}}' >large_share.json
ok "a share of a billion" "rate/bound 100.0 %" "$blink" plan dgx1v -c all_gather --hints large_share.json
refused "hint for another collective" "shares: is for all_gather" "$blink" plan dgx1v --hints hints.json
printf '{"blink_hints": 1, "forwarding_ranks": [7]}' >forwarding.json
refused "contradicting hints" "both the root and in forwarding_ranks" "$blink" plan dgx1v -c broadcast --root 7 --hints forwarding.json
printf '{"blink_hints": 1, "max_tree": 7}' >wrong_hints.json
refused "misspelt hint" "max_tree: unknown key" "$blink" plan dgx1v --hints wrong_hints.json
refused "frontier of a broadcast" "frontier: is for all_gather" "$blink" plan dgx1v -c broadcast --frontier 3
ok "plan to repair" "written" "$blink" plan dgx1v -c all_gather --out old.json
ok "repair" "ranks lost   7" "$blink" plan dgx1v --ranks 0-6 --repair old.json --out new.json
ok "repaired plan is sound" "sound" "$blink" check dgx1v new.json
ok "repair of what is whole" "0 changed, 0 new, 0 dropped" "$blink" plan dgx1v --repair old.json
# Links in one direction suffice for a root that reaches all, and for none other.
cat >one_way.json <<'JSON'
{"name": "one_way", "unit": "GB/s", "nodes": [{"id": 0, "kind": "gpu"}, {"id": 1, "kind": "gpu"}, {"id": 2, "kind": "gpu"}],
 "links": [{"src": 0, "dst": 1, "capacity": 1}, {"src": 1, "dst": 2, "capacity": 1}]}
JSON
for what in "broadcast --root 0" broadcast "reduce --root 2" reduce; do
  ok "one way: $what" "rate         1 GB/s" "$blink" plan one_way.json -c $what
done
ok "one way: scatter" "rate/bound 100.0 %" "$blink" plan one_way.json -c scatter --root 0
ok "one way: gather" "rate/bound 100.0 %" "$blink" plan one_way.json -c gather --root 2
refused "one way: wrong root" "no route leads from rank 1 to every other rank" "$blink" plan one_way.json -c broadcast --root 1
refused "one way: no root" "rank 1 does not reach every other rank" "$blink" plan one_way.json -c scatter --root 1
refused "one way: all_gather" "no path from rank 1 to rank 0" "$blink" plan one_way.json -c all_gather

# A lost link leaves a switch at a dead end. The plan's certificate holds on the machine as given.
python3 - <<'PY'
import json
def machine(name, lost):
    ends = [(0, 1, 10), (1, 2, 10), (2, 0, 10), (0, 3, 5), (3, 4, 5), (1, 4, 5), (2, 4, 5)]
    links = [{"src": a, "dst": b, "capacity": c} for u, v, c in ends for a, b in ((u, v), (v, u)) if {u, v} != lost]
    nodes = [{"id": i, "kind": "gpu" if i < 3 else "switch"} for i in range(5)]
    json.dump({"name": name, "unit": "GB/s", "nodes": nodes, "links": links}, open(name + ".json", "w"))
machine("before", set())
machine("after", {3, 4})
PY
for kind in broadcast reduce all_gather reduce_scatter all_reduce; do
  ok "plan $kind before the loss" "written" "$blink" plan before.json -c $kind --out old_part.json --force
  ok "repair of $kind at a dead end" "written" "$blink" plan after.json --repair old_part.json --out new_part.json --force
  ok "$kind is sound on the machine as given" "sound" "$blink" check after.json new_part.json
  ok "plan $kind on a part" "written" "$blink" plan after.json --ranks 0-2 -c $kind --out new_part.json --force
  ok "$kind of a part is sound" "sound" "$blink" check after.json new_part.json
done
sed 's/"reduce": *\[/"reduce": [[1, 0, [1, 0]], /' new_part.json >twice.json
refused "repair of an unsound plan" "the old plan is not sound: tree 0: reduce edge" "$blink" plan after.json --repair twice.json
refused "repair of no plan" "malformed JSON" "$blink" plan dgx1v --repair "$data/dgx1v.xml"
ok "a plan in no time" "because the budget was spent" "$blink" plan dgx_a100:4 --time 0.000001
ok "repair in no time" "sound" sh -c "'$blink' plan dgx1v --ranks 0-6 --repair old.json --time 0.000001 --out hasty.json && '$blink' check dgx1v hasty.json"
ok "groups" "groups 0-1 at 125 GB/s" "$blink" plan dgx1v -c all_to_all --groups 0-3/4-7 --out groups.json
ok "plans of groups are sound" "groups       2 of dgx1v" "$blink" check dgx1v groups.json
ok "groups across" "groups 0-7 at 25 GB/s" "$blink" plan dgx_a100:2 --groups across=8
ok "groups of their own" "all_gather .* 4 5 6" "$blink" plan dgx1v --groups 0-3/all_gather:4-6 --compare
refused "groups of another machine" "carries 25 of a capacity of 20" "$blink" check dgx1p groups.json
refused "an empty group" "group 1 is empty" "$blink" plan dgx1v --groups 0-3/
refused "groups that overlap" "rank 3 is also in group 0" "$blink" plan dgx1v --groups 0-3/3-7
refused "groups that do not divide" "a number that divides the 8 ranks" "$blink" plan dgx1v --groups of=3
refused "groups and hints" "--groups excludes --max-trees, expected one of them" "$blink" plan dgx1v --groups 0-3/4-7 --max-trees 3
refused "a barrier of groups" "found barrier, expected a collective that moves data" "$blink" plan dgx1v --groups 0-3/4-7 -c barrier
ok "a line without an end" "^2000[0-9][0-9]$" sh -c "'$blink' run -n 1 -- head -c 200000 /dev/zero | wc -c"
ok "no standard output" "status 0" sh -c "('$blink' run -n 2 -- true >&-); echo status \$?"
refused "a full standard output" "No space left" sh -c "'$blink' run -n 2 -- echo >/dev/full"
refused "a full standard output for a plan" "No space left" sh -c "'$blink' plan dgx1v >/dev/full"
ok "few addresses" "rank_count" sh -c "ulimit -v 4000000; '$blink' run -n 1 -- sh -c 'echo rank_count'"
ok "small files" "rank_count" sh -c "ulimit -f 1000; '$blink' run -n 1 -- sh -c 'echo rank_count'"
refused "a rank without memory" "memory of this process is exhausted" sh -c "ulimit -v 2000000; '$blink' perf -g 2 -b 4G -e 4G -n 1 >/dev/null"
ok "order of blocks" "24 blocks: totals of a rank: at most 1," "$blink" plan dgx_a100 --blocks 24
ok "order of blocks of two ranks" "12 blocks: as an all_reduce" "$blink" plan dgx1v --ranks 0,1 --blocks 12
refused "blocks that do not divide" "24 blocks on 5 ranks" "$blink" plan dgx1v --ranks 0-4 --blocks 24
refused "blocks of a broadcast" "--blocks: expected an all_reduce" "$blink" plan dgx1v -c broadcast --blocks 24
ok "many ranks print as runs" "over 40 ranks: 0-39" "$blink" plan dgx_a100:5
ok "swing" "rate/bound 100.0 %" "$blink" plan torus:4x4 --planner swing
refused "no torus" "is no ring or torus of direct links" "$blink" plan dgx1v --planner trivance
refused "no time" "--time: found '0', expected a positive number" "$blink" plan dgx1v --time 0
refused "no memory" "--memory 0: expected more than 0 bytes" "$blink" plan dgx1v --memory 0
refused "hints in no time" "the budget was spent before" "$blink" plan dgx1v --max-trees 3 --time 0.000001
refused "repair and hints" "--repair excludes --max-trees" "$blink" plan dgx1v --repair old.json --max-trees 9
refused "repair and sizes" "--repair excludes --sizes" "$blink" plan dgx1v --repair old.json --sizes 8:1K
refused "sizes and hints" "--max-height excludes --sizes, expected one of them" "$blink" plan dgx1v --sizes 8:1K --max-height 2
refused "frontier and hints" "--max-height excludes --frontier" "$blink" plan dgx1v -c all_gather --frontier 2 --max-height 2
refused "repair for a collective" "--collective" "$blink" plan dgx1v --repair old.json -c broadcast
cat >fan.json <<'END'
{"name": "fan", "unit": "GB/s",
 "nodes": [{"id": 0, "kind": "gpu"}, {"id": 1, "kind": "gpu"}, {"id": 2, "kind": "gpu"},
           {"id": 9, "kind": "switch", "label": "fan"}],
 "links": [{"src": 0, "dst": 9, "capacity": 4}, {"src": 9, "dst": 1, "capacity": 4},
           {"src": 9, "dst": 2, "capacity": 5}, {"src": 1, "dst": 2, "capacity": 1},
           {"src": 2, "dst": 1, "capacity": 1}, {"src": 1, "dst": 0, "capacity": 3},
           {"src": 2, "dst": 0, "capacity": 3}]}
END
ok "switches are balanced" "rate/bound 100.0 %" "$blink" plan fan.json -c broadcast --root 0 --out fan_plan.json
ok "plan of balanced switches is sound" "sound" "$blink" check fan.json fan_plan.json
refused "links without a rate" "unit 'links' has no known rate" "$blink" simulate ring:5 --sizes 1M
refused "sizes the wrong way" "--sizes 1M:8" "$blink" plan dgx1v --sizes 1M:8
refused "sizes that are none" "--sizes x" "$blink" plan dgx1v --sizes x

for machine in dgx1v dgx2 ring:5; do
  for collective in gather scatter; do
    ok "$collective on $machine" "100.0 %" "$blink" plan $machine -c $collective --root 1 --out p.json --force
    ok "$collective on $machine is sound" "sound" "$blink" check $machine p.json
  done
  for collective in all_to_all send_to_next; do
    ok "$collective on $machine" "100.0 %" "$blink" plan $machine -c $collective --out p.json --force --svg p.svg
    ok "$collective on $machine is sound" "sound" "$blink" check $machine p.json
  done
  ok "barrier on $machine" "signals only" "$blink" plan $machine -c barrier --out p.json --force --svg p.svg
  ok "barrier on $machine is sound" "sound" "$blink" check $machine p.json
done
ok "permutation" "100.0 %" "$blink" plan ring:4 -c permute --to 2,3,0,1 --out p.json --force
ok "permutation is sound" "sound" "$blink" check ring:4 p.json
ok "identity" "all stay" "$blink" plan ring:4 -c permute --to 0,1,2,3
refused "no permutation" "found destination 1" "$blink" plan ring:4 -c permute --to 1,1,2,3
refused "no destinations" "found 0 destinations" "$blink" plan ring:4 -c permute
for collective in gather scatter all_to_all send_to_next; do
  ok "$collective among threads" "^ *[0-9].* 0$" "$blink" perf -c $collective -g 3 -b 8K -e 8K -n 3 --in-place
  ok "planned $collective" "^ *[0-9].* 0$" "$blink" perf dgx1v --ranks 0,1,4,6,7 -c $collective -b 64K -e 64K -n 2
done
ok "permutation among threads" "^ *[0-9].* 0$" "$blink" perf -c permute -g 3 --to 2,0,1 -b 8K -e 8K -n 3 --in-place
ok "planned permutation" "^ *[0-9].* 0$" "$blink" perf dgx1v --ranks 0,1,4,6 -c permute --to 4,6,1,0 -b 64K -e 64K -n 2
ok "planned permutation that moves nothing" "^ *[0-9].* 0$" "$blink" perf dgx1v --ranks 0,1 -c permute --to 0,1 -b 64 -e 64 -n 2
ok "planned gather of one rank" "^ *[0-9].* 0$" "$blink" perf dgx2 --ranks 3 --links nvlink -c gather -b 64 -e 64 -n 2
ok "barrier among threads" "barrier, 3 ranks" "$blink" perf -c barrier -g 3 -n 3
ok "planned barrier" "barrier, 8 ranks" "$blink" perf dgx1v -c barrier -n 3
ok "unequal shares are named" "blocks in proportion to the plan's shares" "$blink" perf dgx1v -c all_gather --plan hinted.json -b 64K -e 64K -n 2 --in-place
ok "planned unequal shares" "^ *[0-9].* 0$" "$blink" perf dgx1v -c all_gather --plan hinted.json -b 64K -e 64K -n 2
ok "algorithms are measured" "from 0 bytes on" "$blink" tune -g 2 -c all_reduce,broadcast -e 4K -n 3 -o "$work/tuning.json"
ok "algorithms are run" "tuning .* 0 " "$blink" perf -g 2 -b 8 -e 2K -n 3 --tuning "$work/tuning.json"
ok "measurements as files" "from 0 bytes on" "$blink" tune -g 2 -e 4K -n 3 --json tuned.json --csv tuned.csv
ok "a measurement as CSV" "^all_reduce,2,8," cat tuned.csv
ok "a measurement as JSON" '"blink_tune": 1' cat tuned.json
ok "processes measure algorithms" "2 ranks as processes" "$blink" run -n 2 -- "$blink" tune -e 4K -n 3
ok "plans become algorithms" "tuning table written" "$blink" plan dgx1v -c all_reduce --tuning "$work/plan_tuning.json"
ok "planned algorithms run" "tuning .* 0 " "$blink" perf -g 8 -b 64K -e 64K -n 2 --tuning "$work/plan_tuning.json"
ok "fastest algorithms are kept" "one-shot" "$blink" plan dgx2 -c all_reduce --sizes 8:64M --tuning "$work/model.json"
ok "fastest algorithms run" "tuning .* 0 " "$blink" perf -g 16 -b 8 -e 128K -f 64 -n 2 --tuning "$work/model.json"
refused "algorithms of another collective" "expected some of gather" "$blink" perf -g 2 -c gather --tuning "$work/tuning.json"
refused "algorithms for other ranks" "algorithms for 2 ranks, expected 3" "$blink" perf -g 3 --tuning "$work/tuning.json"
refused "tuning file that is a plan" "blink_tuning: missing" "$blink" perf -g 2 --tuning p.json
refused "tuning a barrier" "it has one algorithm, expected a collective with several" "$blink" tune -c barrier
refused "tuning for no size" "expected at least 1 byte" "$blink" tune -b 0
refused "permutation without destinations" "found .., expected ids" "$blink" perf -c permute -g 2

refused "unknown planner" "unknown planner 'magic', expected one of exact" "$blink" plan dgx1v -p magic
refused "unknown collective" "unknown collective 'allred', expected one of" "$blink" plan dgx1v -c allred
refused "unknown machine" "dgx1v" "$blink" plan dgx1w
[ -e /dev/nvidiactl ] || refused "no GPUs" "no NVIDIA driver" "$blink" topo gpus
refused "missing file" "nothing.json" "$blink" plan nothing.json
refused "rank twice" "0" "$blink" plan dgx1v --ranks 0,0,1
printf '{"blink_hints":1,"forbidden_links":[[0,1],[1,0],[0,2],[2,0],[0,3],[3,0],[0,4],[4,0]]}' > forbidden.json
ok "forbidden NVLinks leave PCIe" "rate  *12 GB/s" "$blink" plan dgx1v_pcie --hints forbidden.json
refused "an unset variable as ranks" "no ids, expected some" "$blink" plan dgx1v --ranks ""
printf 'GPU0 GPU1 GPU2 CPU Affinity\nGPU0 X NV4 SYS 0-7\nGPU1 NV4 X SYS 0-7\nGPU2 SYS SYS X 8-15\n' > smi.log
ok "table of nvidia-smi" "remark  *GPU2 has no NVLink" "$blink" topo smi.log
ok "table from a pipe" "rate  *64 GB/s" sh -c "'$blink' plan - --link-rate pcie=48 --link-rate socket=32 -c all_gather --ranks 0,2 < smi.log"
ok "a pipe is read once" "all links give" sh -c "'$blink' plan - --ranks 0,1 < smi.log"
printf 'GPU0 GPU1 GPU2 CPU Affinity\nGPU0 X NV4 NV4 0-7\nGPU1 NV4 X NV4 0-7\nGPU2 NV4 NV4 X 8-15\n' > whole.log
ok "bounds of a kind and of all links" "bound .* of nvlink links, rate/bound 100.0 %" "$blink" plan whole.log --out nvlink.json
ok "plan whose NVLinks are lost" "links  *nvlink links no longer join all ranks, repaired with all links" \
  "$blink" plan smi.log --repair nvlink.json --out lost.json
ok "its repair is sound" "sound" "$blink" check smi.log lost.json
ok "its repair is optimal" "rate/bound 100.0 %" "$blink" plan smi.log --repair nvlink.json
ok "repair with other links" "machine  *whole, links: pcie only" "$blink" plan whole.log --ranks 0,1 --repair nvlink.json --links pcie
ok "repair with the links of the plan" "bound .* of nvlink links" "$blink" plan whole.log --repair nvlink.json
ok "program on a kind of links" "written" "$blink" plan whole.log -c all_gather --msccl whole.xml
ok "bound of all links" "bound .* of all links" "$blink" check whole.xml --machine whole.log
ok "bound of a kind of links" "bound .* of nvlink links, rate/bound 100.0 %" "$blink" check whole.xml --machine whole.log
refused "file that exists" "nvlink.json exists, expected a new file, or --force" "$blink" plan dgx1v --out nvlink.json
ok "file that exists is as it was" "nvlink" cat nvlink.json
ok "file that is replaced" "written" "$blink" plan dgx1v -c broadcast --out nvlink.json --force
ok "file that was replaced" '"broadcast"' cat nvlink.json
ok "no other file is left" "^0$" sh -c "ls | grep -c part[0-9] || true"
refused "unwritable file" "cannot be written" "$blink" plan dgx1v --out no_folder/p.json
ok "plan to a pipe" '"trees"' sh -c "'$blink' plan dgx1v --out /dev/stdout | cat"
for one in "--out q.json" "--svg q.svg" "--msccl q.xml" --compare --all "--bytes 8"; do
  refused "table of sizes and $one" "excludes" "$blink" plan dgx1v --sizes 1K $one
  refused "frontier and $one" "excludes" "$blink" plan dgx1v --frontier 2 $one
done
refused "json without a table" "--json: found without a table, expected --sizes, --compare" "$blink" plan dgx1v --json t.json
refused "csv without a table" "--csv: found without a table" "$blink" plan dgx1v --csv t.csv
printf '{"blink_hints": 1}' >no_hints.json
refused "hints without a restriction" "--json: found without a table" "$blink" plan dgx1v --hints no_hints.json --json t.json
refused "a comparison of what one planner plans" "no other planner plans all_to_all" "$blink" plan dgx1v -c all_to_all --compare --json t.json
refused "a comparison beside hints" "--compare excludes --max-trees" "$blink" plan dgx1v --max-trees 3 --compare
for one in --json --csv; do
  refused "repair and $one" "--repair excludes $one" "$blink" plan dgx1v --repair old.json $one t.json
  for of in --compare "--groups of=4" "--max-trees 3" "-c all_gather --frontier 2" "--sizes 1K"; do
    refused "$one of $of that exists" "nvlink.json exists, expected a new file, or --force" "$blink" plan dgx1v $of $one nvlink.json
  done
  refused "$one without a folder" "no_folder/t: cannot be written" "$blink" plan dgx1v --ranks 0-3 --compare $one no_folder/t
done
ok "tables that exist are as they were" '"broadcast"' cat nvlink.json
ok "no table is written" "^0$" sh -c "ls | grep -c '^t[.]' || true"
ok "a table that is replaced" "times as fast" "$blink" plan dgx1v --ranks 0-3 --compare --json nvlink.json --force
ok "the table that replaced it" '"blink_comparison": 1' cat nvlink.json
refused "instances of nothing" "--msccl" "$blink" plan dgx1v --dialect rccl
refused "simulation of a plan with a root" "excludes" "$blink" simulate dgx1v --plan plan.json --root 3
for machine in dgx1v_pcie "$data/dgx1v.xml"; do
  ok "NCCL file of $machine" "written" "$blink" topo $machine --convert nccl --out n.xml --force
  class=$("$blink" topo $machine | grep class)
  ok "NCCL file of $machine comes back" "$class" "$blink" topo n.xml
  ok "JSON of $machine" "written" "$blink" topo n.xml --convert json -o n.json --force
  ok "JSON of $machine comes back" "$class" "$blink" topo n.json
done
ok "machine as a graph" 'n0 -> n3 \[label="50 nvlink", dir=both\]' "$blink" topo dgx1v --convert dot
refused "NCCL file of several servers" "expected what a topology file of NCCL can state" "$blink" topo dgx_a100:2 --convert nccl
ok "what matters" "12 of 28 pairs have no NVLink; 2 ranks share each of 4 PCIe links of 12 GB/s; best all-reduce" "$blink" topo dgx1v_pcie
ok "what matters, as JSON" '"pairs_without_fastest": 12' "$blink" topo dgx1v_pcie --json
ok "matrix of paths" "6   S6  S6 N25  S6 N25 N50   - N50" "$blink" topo dgx1v_pcie
printf '{"name": "\\u001b[31mred", "unit": "GB/s", "nodes": [{"id": 0, "kind": "gpu", "label": "a\\u0007"}, {"id": 1, "kind": "gpu"}], "links": [{"src": 0, "dst": 1, "capacity": 1}, {"src": 1, "dst": 0, "capacity": 1}]}' > loud.json
ok "control characters of a machine" "?.31mred" "$blink" topo loud.json
ok "no control character is printed" "^0$" sh -c "'$blink' topo loud.json --full | grep -c '[[:cntrl:]]' || true"
ok "nor by a plan" "^0$" sh -c "'$blink' plan loud.json | grep -c '[[:cntrl:]]' || true"
ok "NCCL's figures" "best all-reduce 68.5714" "$blink" topo "$data/dgx1v.xml" --as-nccl
refused "NCCL's figures of a name" "expected a topology of NCCL or RCCL" "$blink" topo dgx1v --as-nccl
machines=$(dirname "$self")/../data/machines
ok "copies of a file" "4: 0 1 2 3" "$blink" topo "$machines/nccl.xml:2"
ok "a cluster" "8: 0 1 2 3 4 5 6 7" "$blink" topo "$machines/cluster.conf" --node "$machines/nccl.xml"
ok "a plan for a cluster" "rate/bound 100.0 %" "$blink" plan "$machines/cluster.yaml" --node "$machines/nccl.xml" -c all_gather
refused "a cluster without nodes" "expected --node MACHINE" "$blink" topo "$machines/cluster.conf"
refused "NICs of no cluster" "--node" "$blink" topo dgx2 --nic-rate 50
printf '<graphs version="1">\n<graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20" speedinter="20" typeintra="NVL" typeinter="LOC">\n<channel><gpu dev="0x0"/><gpu dev="1"/><gpu dev="2"/><gpu dev="3"/><gpu dev="7"/><gpu dev="6"/><gpu dev="5"/><gpu dev="4"/></channel>\n</graph>\n</graphs>\n' > graphs.xml
ok "graphs of NCCL" "ring  *1 channels of 20 GB/s, paths NVL" "$blink" check graphs.xml
ok "rings of NCCL on a machine" "rate  *14.2857 GB/s (100/7) at most" "$blink" check graphs.xml --machine dgx1v
ok "rings of NCCL beside the optimum" "rate/bound 16.7 %" "$blink" check graphs.xml --machine dgx1v
refused "graphs are no machine" "blink check compares it" "$blink" topo graphs.xml
refused "graphs of another machine" "expected all ranks of machine" "$blink" check graphs.xml --machine dgx2
ok "probe of threads" "  exact  " "$blink" probe -g 3 --bytes 64K --seconds 0.5 --out probe.json
ok "its machine is planned" "rate/bound 100.0 %" "$blink" plan probe.json -c all_gather
ok "probe of processes" "2 ranks as processes" "$blink" run -n 2 -- "$blink" probe --bytes 64K --seconds 0.5
printf '0 1e5\n1e5 0\n' > fast.txt
ok "links that are slower than described" "  0 -> 1: .* GB/s, described 1e+05" "$blink" probe fast.txt --bytes 64K --seconds 0.5
# GPUs by a program that measures; here one that prints what it once measured.
cat > probe_gpus <<'TXT'
#!/bin/sh
rates='{"alone":[[0,2e10],[1e10,0]],"start_up":[[0,1e-5],[1e-5,0]],"between":[[0,2e10],[1e10,0]],
  "loaded":[[0,2e10],[1e10,0]],"out":[2e10,1e10],"in":[1e10,2e10],"levels":[]}'
echo "{\"gpu_probe\":1,\"bus_ids\":[\"0000:07:00.0\",\"0000:08:00.0\"],\"bytes\":$1,\"refused\":[[0,1]],\"lost\":[],
  \"peer\":$rates,\"host\":$rates}"
TXT
chmod +x probe_gpus
printf '0 20\n20 0\n' > two_gpus.txt
ok "probe of GPUs" "2 GPUs, by copies between them, messages of 33554432 bytes" env BLINK_PROBE_GPUS="$PWD/probe_gpus" "$blink" probe --gpus --out gpus.json
ok "its machine is planned" "rate/bound 100.0 %" "$blink" plan gpus.json -c all_gather
ok "GPUs without access" "GPU 0 to GPU 1: no access" env BLINK_PROBE_GPUS="$PWD/probe_gpus" "$blink" probe --gpus --through-host
ok "GPUs' links that are slower than described" "  1 -> 0: 10 GB/s, described 20" env BLINK_PROBE_GPUS="$PWD/probe_gpus" "$blink" probe --gpus two_gpus.txt
mkdir printed
python3 "$(dirname "$self")/printed_tables.py" "$blink" printed "$PWD/probe_gpus" || failures=$((failures + 1))
refused "paths of many ranks" "--csv: 72 ranks, expected few enough" "$blink" topo nvl72 --csv many.csv
refused "a conversion and paths" "excludes" "$blink" topo dgx1v --convert json --csv many.csv
refused "one file for both" "both.txt is also that of --json, expected another file" "$blink" simulate dgx1v --json both.txt --csv both.txt
ok "none of them is written" "^0$" sh -c "ls | grep -c 'many.csv\|both.txt' || true"
mkdir kept && echo old >kept/links.csv
refused "a table that exists" "kept/links.csv exists, expected a new file" "$blink" probe -g 2 --csv kept
refused "a file in the place of a folder" "gpus.json: is no folder" "$blink" probe -g 2 --csv gpus.json
ok "tables that exist stay" "^links.csv$" ls kept
refused "GPUs of another machine" "8 ranks, expected 2, the GPUs that are measured" env BLINK_PROBE_GPUS="$PWD/probe_gpus" "$blink" probe --gpus dgx1v
printf '#!/bin/sh\nexit 1\n' > no_gpus
chmod +x no_gpus
refused "a program that measures no GPUs" "no_gpus ended with status 1, expected rates of GPUs" env BLINK_PROBE_GPUS="$PWD/no_gpus" "$blink" probe --gpus
refused "no program that measures GPUs" "cannot be run: No such file" env BLINK_PROBE_GPUS=./none "$blink" probe --gpus
refused "GPUs and threads" "-g: found with --gpus" "$blink" probe --gpus -g 2
refused "probe of other ranks" "2 ranks, expected 3, those that are measured" "$blink" probe fast.txt -g 3
ok "visible devices" "3: 2 5 7" env CUDA_VISIBLE_DEVICES=2,5,7 "$blink" topo dgx1v --ranks visible
refused "devices of another machine" "CUDA_VISIBLE_DEVICES: found '8', where programs end the list: gpu8 is not in machine 'dgx1v', expected one of gpu0, gpu1" env CUDA_VISIBLE_DEVICES=8 "$blink" topo dgx1v --ranks visible
refused "no visible devices" "are not set" env -u CUDA_VISIBLE_DEVICES "$blink" topo dgx1v --ranks visible
refused "UUIDs of a machine that states none" "found 'GPU-1', where programs end the list: no rank of machine 'dgx1v' has this UUID, expected numbers" env CUDA_VISIBLE_DEVICES=GPU-1 "$blink" topo dgx1v --ranks visible
refused "variables that differ" "CUDA_VISIBLE_DEVICES='0' and ROCR_VISIBLE_DEVICES='1' differ" env CUDA_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=1 "$blink" topo dgx1v --ranks visible
{
  cat "$machines/nvidia_smi.txt"
  printf 'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-8932f937-0000)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-8932a000-0000)\n'
  printf '  MIG 1g.5gb     Device  0: (UUID: MIG-aaaa0000)\n  MIG 1g.5gb     Device  1: (UUID: MIG-bbbb0000)\n'
} > mig.txt
ok "devices by UUID" "2: 0 1" env CUDA_VISIBLE_DEVICES=GPU-8932f,MIG-a "$blink" topo mig.txt --ranks visible
ok "ranks by UUID and number" "2: 0 2" "$blink" topo mig.txt --ranks 0,MIG-bbbb
ok "UUIDs are shown" "rank  *gpu1:0 .* MIG-aaaa0000$" "$blink" topo mig.txt --full
ok "MIG devices" "remark  *2 MIG devices share the links of gpu1 to its host" "$blink" topo mig.txt
ok "a plan for MIG devices" "rate/bound 100.0 %" "$blink" plan mig.txt --ranks MIG-a,MIG-b -c all_gather
refused "a UUID of several" "found 'GPU-8932': 2 devices of machine 'mig' fit" "$blink" topo mig.txt --ranks GPU-8932
refused "a GPU that is split" "a GPU that is split, expected one of 1 (MIG-aaaa0000), 2 (MIG-bbbb0000)" "$blink" topo mig.txt --ranks GPU-8932a
refused "the number of a split GPU" "gpu1 is split in machine 'mig', expected one of gpu1:0, gpu1:1" env CUDA_VISIBLE_DEVICES=0,1 "$blink" topo mig.txt --ranks visible
ok "JSON keeps UUIDs" '"uuids": \["MIG-aaaa0000"\]' "$blink" topo mig.txt --convert json
ok "a rank by bus id" "1: 1" "$blink" topo "$machines/nccl.xml" --ranks 82:00.0
printf 'GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-8932f937)\n' > list.txt
refused "a list without a table" "does not say where the links go" "$blink" topo list.txt
awk 'BEGIN { for (i = 0; i < 200000; ++i) printf "["; print "" }' > deep.json
for call in "check dgx1v deep.json" "plan dgx1v --hints deep.json" "plan dgx1v --repair deep.json" "topo deep.json" \
  "perf -g 2 --tuning deep.json -b 1K -e 1K" "simulate dgx1v --plan deep.json"; do
  refused "deep nesting: $call" "deep.json" "$blink" $call
done
refused "levels of a plan file" "deep.json:1: more than 100 levels" "$blink" check dgx1v deep.json
ok "rates of the table" "remark  *socket counts as 16 GB/s" "$blink" plan smi.log
refused "rates that the machine states" "states its own rates of pcie" "$blink" plan dgx1v --link-rate pcie=48
refused "rate without a number" "expected nvlink=, .* or socket=" "$blink" plan smi.log --link-rate pcie
sed 's/<gpu /<gpu colour="red" /' "$data/dgx1v.xml" > coloured.xml
ok "unknown attribute" "remark  *line .*unknown attribute 'colour'" "$blink" topo coloured.xml
refused "unknown attribute, strictly" "unknown attribute 'colour'" "$blink" topo coloured.xml --strict
refused "unknown rank" "9" "$blink" plan dgx1v --ranks 0,9
refused "no number" "--ranks: found 'x'" "$blink" plan dgx1v --ranks 0,x
refused "root outside" "root 7" "$blink" plan dgx1v --ranks 0,1,2 -c broadcast --root 7
refused "disconnected" "no path from rank 0 to rank 7" "$blink" plan dgx1v --ranks 0,7
refused "no ring" "no closed ring" "$blink" plan dgx1v --ranks 0,1,4 -p ring
refused "unknown option" "--rank" "$blink" plan dgx1v --rank 0,1
refused "unknown command" "help" "$blink" plam
refused "malformed plan" "malformed JSON" "$blink" check dgx1v "$self"
refused "another XML" "expected the element <algo>" "$blink" check dgx1v "$data/dgx1v.xml"
sed 's/"rate": "[^"]*"/"rate": "99"/' plan.json >wrong.json
refused "wrong rate" "claims a rate of 99" "$blink" check dgx1v wrong.json
refused "plan of another machine" "plan.json" "$blink" check dgx1p plan.json
head -c 300 "$data/dgx1v.xml" >cut.xml
refused "truncated XML" "cut.xml" "$blink" topo cut.xml
for number in abc 0 -1 nan inf 1x 1e10; do
  refused "deadline $number" \
    "^blink: --deadline: found '$number', expected a positive number, at most 1e+09$" \
    "$blink" run -n 2 "--deadline=$number" -- true
done
ok "a short deadline" "1e-07$" "$blink" run -n 1 --deadline 1e-7 -- sh -c 'echo "$BLINK_DEADLINE"'
refused "one rank that sends" "^blink: send_to_next: one rank has nothing to send" \
  "$blink" perf dgx1v --ranks 0 -c send_to_next
refused "step" "^blink: --step-us: found '-1', expected a number that is not negative$" \
  "$blink" plan dgx1v --step-us=-1

[ $failures -eq 0 ] && echo "the command behaves"
exit $failures
