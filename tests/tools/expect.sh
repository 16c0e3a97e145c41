# SPDX-License-Identifier: Apache-2.0
# For tests of commands by their output: a folder "$work" that is removed at the end, and `expect`.
# The test ends with `report`.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect NAME STATUS PATTERN COMMAND...: expects the status, and a line with the pattern on standard
# output or standard error.
expect() {
  name=$1 status=$2 pattern=$3
  shift 3
  timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  if [ $got -eq "$status" ] && cat "$work/out" "$work/err" | grep -q -- "$pattern"; then return; fi
  failures=$((failures + 1))
  printf 'FAILED %s: %s\n  expected status %d and "%s", got status %d\n' "$name" "$*" "$status" \
    "$pattern" $got
  cat "$work/out" "$work/err" | sed 's/^/  | /' | head -30
}
# lines NAME COUNT: expects COUNT lines of output of the last command.
lines() {
  count=$(wc -l <"$work/out")
  if [ "$count" -eq "$2" ]; then return; fi
  failures=$((failures + 1))
  printf 'FAILED %s: %d lines, expected %d\n' "$1" "$count" "$2"
}
# wait_for COUNT PATTERN FILE: waits until the file has so many lines with the pattern.
wait_for() {
  tries=0
  while [ "$(grep -c -- "$2" "$3")" -lt "$1" ] && [ $tries -lt 400 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
}
# gone NAME PROCESS...: expects that the processes end.
gone() {
  name=$1
  shift
  for process in "$@"; do
    tries=0
    while kill -0 "$process" 2>/dev/null && ! grep -q ') Z' "/proc/$process/stat" && [ $tries -lt 200 ]; do
      sleep 0.05
      tries=$((tries + 1))
    done
    if [ $tries -ge 200 ]; then
      failures=$((failures + 1))
      echo "FAILED $name: process $process goes on"
      kill -KILL "$process"
    fi
  done
}
report() {
  [ $failures -eq 0 ] && echo "all as expected"
  exit $failures
}
