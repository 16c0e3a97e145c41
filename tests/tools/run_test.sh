#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests `blink run` by its output. usage: run_test.sh PROGRAM LAUNCHER...
# PROGRAM is example_processes. LAUNCHER is the part of the command before "-n RANKS -- PROGRAM".
. "$(dirname "$0")/expect.sh"
program=$(realpath "$1")
shift

expect "four ranks" 0 '^\[3\] rank 3 of 4: 10$' "$@" -n 4 -- "$program"
lines "four ranks" 4
expect "no launcher" 0 'BLINK_RANK_COUNT is not set' "$program"
expect "no program" 2 'cannot run ./nowhere/nothing.' "$@" -n 2 -- /nowhere/nothing
expect "environment" 0 '^\[1\] 1 of 2, /proc/' \
  "$@" -n 2 -- sh -c 'echo "$BLINK_RANK of $BLINK_RANK_COUNT, $BLINK_SEGMENT"'
expect "standard error has labels too" 0 '^\[0\] oops$' "$@" -n 1 -- sh -c 'echo oops >&2'
expect "a last line without an end" 0 '^\[0\] half$' "$@" -n 1 -- printf half
expect "arguments are passed as they are" 0 '^\[0\] <-n> <a b> <-->$' \
  "$@" -n 1 -- sh -c 'printf "<%s> <%s> <%s>\n" "$@"' name -n "a b" --
allowed='grep ^Cpus_allowed_list: /proc/self/status'
cores=$(taskset -cp $$ | sed 's/.*: //')
if [ "$cores" = 0,1 ] || [ "$cores" = 0-1 ]; then
  expect "two ranks on two cores" 0 '^\[1\] Cpus_allowed_list:.1$' "$@" -n 2 --bind -- $allowed
  expect "more ranks than cores" 0 '^\[2\] Cpus_allowed_list:.1$' "$@" -n 4 --bind -- $allowed
fi
expect "bound to cores that there are" 0 '^\[0\] Cpus_allowed_list:.[0-9]*$' \
  taskset -c "${cores%%[-,]*}" "$@" -n 3 --bind -- $allowed
expect "the status of the rank that fails; the others are stopped" 7 'rank 1 .* ended with status 7' \
  "$@" -n 3 -- sh -c 'if [ $BLINK_RANK = 1 ]; then exit 7; fi; sleep 60'
expect "a rank that is killed" 137 'rank 0 .* was killed by signal 9' \
  "$@" -n 2 -- sh -c 'if [ $BLINK_RANK = 0 ]; then kill -9 $$; fi; sleep 60'
expect "ranks that ignore signals are killed" 5 'rank 0 .* ended with status 5' \
  "$@" -n 2 -- sh -c 'if [ $BLINK_RANK = 0 ]; then exit 5; fi; trap "" TERM; sleep 60 & wait; wait; sleep 60'
expect "a rank outside of the count" 0 "BLINK_RANK is '5', expected an integer from 0 to 1" \
  "$@" -n 2 -- env BLINK_RANK=5 "$program"
expect "another count than the communicator has" 0 'BLINK_RANK_COUNT is 3, the communicator .* has 2 ranks' \
  "$@" -n 2 -- env BLINK_RANK_COUNT=3 "$program"
expect "a rank that is taken" 0 'rank 0 is taken by process' \
  "$@" -n 1 -- sh -c "'$program'; '$program'"

# What a failed rank has started ends, too, also if it has left the rank's group of processes.
expect "a child that leaves" 7 'ended with status 7' \
  "$@" -n 1 -- sh -c 'setsid sleep 3133 & echo $!; sleep 0.2; exit 7'
if pgrep -f "sleep 3133" >/dev/null; then
  failures=$((failures + 1))
  echo "FAILED: a child of a failed rank goes on"
  pkill -f "sleep 3133"
fi
if [ "$(id -u)" -eq 0 ] && setpriv --reuid 65534 true 2>/dev/null && [ -x /proc/self/exe ]; then
  mkdir "$work/open" && cp "$program" "$work/open/program" && chmod -R a+rX "$work"
  expect "ranks of another user" 0 '^\[1\] rank 1 of 2: 3$' \
    "$@" -n 2 -- setpriv --reuid 65534 --regid 65534 --clear-groups "$work/open/program"
  if unshare --pid --fork true 2>/dev/null; then
    expect "ranks with other process numbers" 0 '^\[1\] rank 1 of 2: 3$' \
      "$@" -n 2 -- unshare --pid --fork --mount-proc "$program"
  fi
fi

# The launcher forwards a signal to its ranks, and reports the signal in its own status.
"$@" -n 2 -- sh -c 'trap "echo caught; exit 3" TERM; echo up; sleep 60 & wait' >"$work/out" 2>&1 &
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

# The ranks end when their launcher is killed.
"$@" -n 2 -- sh -c 'echo process $$; exec sleep 60' >"$work/out" 2>&1 &
launcher=$!
wait_for 2 process "$work/out"
kill -KILL $launcher
wait $launcher 2>/dev/null
gone "launcher killed" $(sed -n 's/^\[[01]\] process //p' "$work/out")

report
