#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: pmpi_test.sh SHIM PROGRAM LAUNCHER...   the number of ranks is the launcher's last word
# Runs a program as it is and once more with the shim in between: equal output, and all covered calls
# went through blink.
set -u
shim=$1
program=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$@" "$program" >"$folder/library" || { echo "the program fails without the shim"; exit 1; }
"$@" env LD_PRELOAD="$shim" BLINK_PMPI_REPORT=1 "$program" >"$folder/blink" 2>"$folder/report" || {
  cat "$folder/report"
  echo "the program fails with the shim"
  exit 1
}
[ -s "$folder/library" ] || { echo "the program printed nothing"; exit 1; }
if ! diff "$folder/library" "$folder/blink" >"$folder/difference"; then
  head -n 20 "$folder/difference"
  echo "the results differ"
  exit 1
fi
cat "$folder/report"
for name in Allreduce Reduce Bcast Allgather Reduce_scatter_block Barrier; do
  taken=$(sed -n "s/^blink: MPI_$name: \([0-9]*\) calls through blink.*/\1/p" "$folder/report")
  [ "${taken:-0}" -gt 0 ] || { echo "no MPI_$name went through blink"; exit 1; }
done

# An environment that does not parse leaves everything to the library, and says so.
"$@" env LD_PRELOAD="$shim" BLINK_PMPI_LEAST=many "$program" >"$folder/blink" 2>"$folder/report" ||
  { echo "the program fails with BLINK_PMPI_LEAST=many"; exit 1; }
cmp "$folder/library" "$folder/blink" || exit 1
grep -q "BLINK_PMPI_LEAST is 'many'" "$folder/report" || { echo "no complaint"; exit 1; }
