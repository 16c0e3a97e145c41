#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: exports_test.sh LIBRARY ABI_HEADER FUNCTIONS_HEADER
# The library exports the functions of the two headers and nothing else, and its name is
# libnccl.so.2.
set -e
expected=$({ sed -n 's/^ *FUNCTION(\([A-Z][A-Za-z]*\),.*/nccl\1/p' "$2"
             sed -n 's/.* \*\?\(nccl[A-Z][A-Za-z]*\)(.*/\1/p' "$3"; } | sort)
found=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sort)
if [ "$expected" != "$found" ]; then
  echo "expected:" $expected
  echo "found:" $found
  exit 1
fi
[ "$(echo "$found" | wc -l)" -gt 40 ]
readelf -d "$1" | grep -q 'SONAME.*\[libnccl\.so\.2\]'
