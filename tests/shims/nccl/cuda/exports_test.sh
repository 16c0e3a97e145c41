#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: exports_test.sh LIBRARY NAMES_OF_NCCL NAMES_FOR_TORCH
# The library exports the names of NCCL, each also with a p before it, and nothing else. Those that
# PyTorch refers to are among them. The library's name is libnccl.so.2.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
grep -v '^#' "$2" | sort >"$work/nccl"
grep -v '^#' "$3" | sort >"$work/torch"
# NCCL has no second name for its internal function.
{ cat "$work/nccl"; sed -n '/^ncclResetDebugInitInternal$/d; s/^/p/p' "$work/nccl"; } | sort >"$work/expected"
nm -D --defined-only "$1" | awk '{ print $3 }' | sort >"$work/found"
code=0
report() { [ -z "$2" ] || { printf '%s: %s\n' "$1" "$(echo $2)"; code=1; }; }
report "names of NCCL that are missing" "$(comm -23 "$work/expected" "$work/found")"
report "names that PyTorch refers to and are missing" "$(comm -23 "$work/torch" "$work/found")"
report "names that NCCL does not have" "$(comm -13 "$work/expected" "$work/found")"
counts="$(wc -l <"$work/nccl") $(wc -l <"$work/torch") $(wc -l <"$work/found")"
[ "$counts" = "97 51 193" ] || report "names of NCCL, for PyTorch, found; expected 97 51 193" "$counts"
readelf -d "$1" | grep -q 'SONAME.*\[libnccl\.so\.2\]' || report "the name is not" "libnccl.so.2"
exit $code
