#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: pmpi_test.sh SHIM PROGRAM CALLS VARIABLE=VALUE LAUNCHER...   the last word is the number of ranks
# Runs a program, with its argument, without and with the shim and the variable. Checks that the
# output lines are equal and that exactly the CALLS went through blink. A variable whose value is no
# number must be reported.
set -u
shim=$1
program=$2
calls=$3
variable=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "$1"
  exit 1
}

"$@" $program >"$folder/library" || fail "the program fails without the shim"
[ -s "$folder/library" ] || fail "the program printed nothing"
"$@" env LD_PRELOAD="$shim" BLINK_PMPI_REPORT=1 "$variable" $program \
  >"$folder/blink" 2>"$folder/report"
status=$?
cat "$folder/report"
[ $status -eq 0 ] || fail "the program fails with the shim"
for output in library blink; do sort -s "$folder/$output" >"$folder/$output.sorted"; done
if ! diff "$folder/library.sorted" "$folder/blink.sorted" >"$folder/difference"; then
  head -n 20 "$folder/difference"
  fail "the results differ"
fi
taken=$(sed -n 's/^blink: MPI_\(.*\): [1-9][0-9]* calls through blink.*/\1/p' "$folder/report" | tr '\n' ' ')
[ "${taken% }" = "$calls" ] || fail "through blink went: $taken, expected: $calls"
# All ranks are processes of this host, so all communicators must use the expected transport.
case $variable in
  BLINK_SHARED_MEMORY=0) way='blink: 0 communicators in shared memory, [1-9]' ;;
  *) way='blink: [1-9][0-9]* communicators in shared memory, 0 over messages' ;;
esac
[ -z "$calls" ] || grep -q "^$way" "$folder/report" || fail "expected: $way"
case $variable in
  *=[a-z]*) grep -q "${variable%=*} is '${variable#*=}'" "$folder/report" || fail "no report of the wrong value" ;;
esac
