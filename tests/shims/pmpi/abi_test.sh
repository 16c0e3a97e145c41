#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: abi_test.sh FOLDER LIBRARY SHIM PROGRAM
# Runs a program that was built for the binary interface of MPI 5, with three ranks: under MPICH 5
# alone, and under the library in FOLDER/LIBRARY with the shim. The output lines must be equal.
set -u
folder=$1
library=$2
shim=$3
program=$4
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# run LIBRARY VARIABLE=VALUE...
run() {
  of=$folder/$1
  shift
  LD_LIBRARY_PATH=$of/lib "$of/bin/mpiexec" -n 3 env BLINK_PMPI_REPORT=1 "$@" "$program"
}
run mpich5 BLINK=0 >"$results/expected" 2>/dev/null || { echo "fails under MPICH 5 alone"; exit 1; }
run "$library" LD_PRELOAD="$shim" >"$results/found" 2>"$results/report" ||
  { cat "$results/report"; echo "fails under $library"; exit 1; }
cat "$results/report"
for output in expected found; do sort -s "$results/$output" >"$results/$output.sorted"; done
diff "$results/expected.sorted" "$results/found.sorted" || { echo "the results differ"; exit 1; }
[ -s "$results/found" ] || { echo "the program printed nothing"; exit 1; }
# The example includes blink; the other programs reach it through the shim.
case $program in
  *all_reduce*) ;;
  *) grep -q 'blink: [1-9][0-9]* communicators in shared memory, 0 over messages' "$results/report" ||
    { echo "no communicator went through blink"; exit 1; } ;;
esac
