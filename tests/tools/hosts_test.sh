#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests `blink run --hosts` by its output. usage: hosts_test.sh PROGRAM RESTARTED BLINK
# PROGRAM is example_ucx_hosts, RESTARTED is restarted.cpp. The hosts are this machine (host_shell.sh).
. "$(dirname "$0")/expect.sh"
program=$(realpath "$1")
restarted=$(realpath "$2")
blink=$(realpath "$3")
shell=$(realpath "$(dirname "$0")/host_shell.sh")

run() {  # run NAME STATUS PATTERN ARGUMENT...: `expect` of blink run
  name=$1 status=$2 pattern=$3
  shift 3
  expect "$name" "$status" "$pattern" "$blink" run "$@"
}

run "one host" 0 '^\[3\] rank 3 of 4: 10$' -n 4 -- "$program"
lines "one host" 4
run "two hosts" 0 '^\[3\] rank 3 of 4: 10$' --hosts a:2,b:2 --shell "$shell" -- "$program"
lines "two hosts" 4
run "hosts of other sizes" 0 '^\[5\] rank 5 of 6: 21$' --hosts a:1,b:3,c:2 --shell "$shell" -- "$program"
lines "hosts of other sizes" 6
run "ranks are divided" 0 '^\[2\] 2 of 3' --hosts a,b -n 3 --shell "$shell" -- \
  sh -c 'echo "$BLINK_RANK of $BLINK_RANK_COUNT"'
run "no launcher" 0 'BLINK_RANK_COUNT is not set' -n 1 -- env -u BLINK_RANK_COUNT "$program"
run "the folder and variables" 0 "^\[1\] one two  three $(pwd)\$" --hosts a,b -n 2 --shell "$shell" \
  -x FIRST="one two  three" -- sh -c 'echo "$FIRST $(pwd)"'
FROM_HERE=here run "a variable of here" 0 '^\[1\] here$' --hosts a,b -n 2 --shell "$shell" \
  --env FROM_HERE -- sh -c 'echo "$FROM_HERE"'
run "no such variable" 2 "'NOT_SET_HERE' is not set" -x NOT_SET_HERE -n 1 -- true
run "arguments are passed as they are" 0 "^\[1\] <a b> <'> <\$HOME>\$" --hosts a,b -n 2 --shell "$shell" -- \
  printf '<%s> <%s> <%s>\n' "a b" "'" '$HOME'
run "arguments need not be UTF-8" 0 '^\[1\]  62 ff$' --hosts a,b -n 2 --shell "$shell" -- \
  sh -c 'printf %s "$1" | od -An -tx1' sh "$(printf 'b\377')"
run "long output" 0 '^\[1\] 100000$' --hosts a,b -n 2 --shell "$shell" -- seq 100000
lines "long output" 200000
run "the status of the rank that fails; the others are stopped" 7 'rank 2 (host b, process .* ended with status 7' \
  --hosts a:2,b:2 --shell "$shell" -- sh -c 'if [ $BLINK_RANK = 2 ]; then exit 7; fi; sleep 60'
run "a rank that is killed" 137 'rank 0 (host a, .* was killed by signal 9' \
  --hosts a,b -n 2 --shell "$shell" -- sh -c 'if [ $BLINK_RANK = 0 ]; then kill -9 $$; fi; sleep 60'
run "a rank that ends before the bootstrap" 1 'process 1 has ended' \
  --hosts a,b -n 2 --shell "$shell" -- sh -c "if [ \$BLINK_RANK = 1 ]; then exit 0; fi; exec '$program'"
run "a rank that does not come to the bootstrap" 1 'waits for process 1, which has not arrived (waited 0.5' \
  --hosts a,b -n 2 --shell "$shell" --deadline 0.5 -- sh -c "if [ \$BLINK_RANK = 1 ]; then exec sleep 60; fi; exec '$program'"
run "ranks go on" 137 'rank 1 (host b, .* was killed by signal 9 (Killed)$' --keep-going \
  --hosts a,b -n 2 --shell "$shell" -- sh -c 'if [ $BLINK_RANK = 1 ]; then kill -9 $$; fi; sleep 0.3; echo on'
[ "$(cat "$work/out")" = "[0] on" ] || { failures=$((failures + 1)); echo "FAILED: rank 0 does not go on"; }
run "no such program" 2 "host [ab]: cannot run 'nothing'" --hosts a,b -n 2 --shell "$shell" -- nothing
run "no such shell" 255 'cannot run ./nowhere/shell' --hosts a,b -n 2 --shell /nowhere/shell -- true
run "no blink there" 255 'host [ab]: the connection to its ranks is lost' \
  --hosts a,b -n 2 --shell "$shell" --blink /nowhere/blink -- true
run "a shell that says something else" 2 "host [ab]: found 'hello" --hosts a,b -n 2 --shell "echo hello" -- true
run "numbers for some hosts" 2 'expected for all or none' --hosts a:2,b -- true
run "another number of ranks" 2 'but --hosts names 4 ranks' --hosts a:2,b:2 -n 3 -- true
run "no ranks" 2 "'a:0', expected" --hosts a:0 -- true
run "too few ranks" 2 'expected at least a rank on each' --hosts a,b -n 1 -- true
run "a host without a name" 2 'empty part' --hosts a,,b -n 3 -- true

# A process takes the place of one that dies, and the others go on with it.
for hosts in "-n 3" "--hosts a:2,b:1 --shell $shell" "--hosts a:1,b:1 --shell $shell"; do
  rm -rf "$work/job" && mkdir "$work/job"
  run "a rank begins again, $hosts" 0 'rank 1 of .: 8 steps, 1 communicators$' \
    $hosts --restart 1 -- "$restarted" "$work/job"
  grep -q 'rank 0 of .: 8 steps, 2 communicators$' "$work/out" && grep -q 'rank 1 .*; started again' "$work/err" || {
    failures=$((failures + 1))
    echo "FAILED a rank begins again, $hosts: rank 0 or the message"
    sed 's/^/  | /' "$work/out" "$work/err"
  }
done
run "too many failures" 5 'ended with status 5; stopping' --hosts a,b -n 2 --shell "$shell" --restart 2 -- \
  sh -c 'if [ $BLINK_RANK = 1 ]; then exit 5; fi; sleep 60'
[ "$(grep -c 'started again' "$work/err")" -eq 2 ] || { failures=$((failures + 1)); echo "FAILED: not 2 restarts"; }

# A signal reaches the ranks of all hosts.
"$blink" run --hosts a,b -n 2 --shell "$shell" -- sh -c 'trap "echo caught; exit 3" TERM; echo up; sleep 60 & wait' \
  >"$work/out" 2>&1 &
launcher=$!
wait_for 2 up "$work/out"
kill -TERM $launcher
wait $launcher
status=$?
if [ $status -ne 143 ] || [ "$(grep -c caught "$work/out")" -ne 2 ]; then
  failures=$((failures + 1))
  echo "FAILED signals: status $status, expected 143 and a message from both ranks"
  sed 's/^/  | /' "$work/out"
fi

# The ranks end when their launcher is killed, and when their agent is.
"$blink" run --hosts a,b -n 2 --shell "$shell" -- sh -c 'echo process $$; exec sleep 60' >"$work/out" 2>&1 &
launcher=$!
wait_for 2 process "$work/out"
kill -KILL $launcher
wait $launcher 2>/dev/null
gone "launcher killed" $(sed -n 's/^\[[01]\] process //p' "$work/out")
"$blink" run --hosts a,b -n 2 --shell "$shell" -- sh -c 'echo process $$ of $PPID $BLINK_RANK; exec sleep 60' >"$work/out" 2>&1 &
launcher=$!
wait_for 2 process "$work/out"
kill -KILL "$(sed -n 's/^.* of \(.*\) 1$/\1/p' "$work/out")"
wait $launcher
status=$?
if [ $status -ne 255 ] || ! grep -q 'host b: the connection to its ranks is lost' "$work/out"; then
  failures=$((failures + 1))
  echo "FAILED agent killed: status $status, expected 255 and the host's name"
  sed 's/^/  | /' "$work/out"
fi
gone "agent killed" $(sed -n 's/^\[[01]\] process \([0-9]*\) .*/\1/p' "$work/out")

report
