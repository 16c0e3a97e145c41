#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Is every C++ block of README.md a compiled example? Each block must be, line by line, a part of one file
# in examples/ or tests/consumer/app/. usage: readme_test.sh PROJECT
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -v out="$work/block" '/^```cpp/ {n++; inside=1; next} /^```/ {inside=0} inside {print > (out n)}' README.md
found=0
for block in "$work"/block*; do
  [ -s "$block" ] || continue
  found=$((found + 1))
  ok=no
  for file in examples/*.cpp examples/*.cu tests/consumer/app/*.cpp; do
    [ -f "$file" ] || continue
    if awk 'NR == FNR {want[++n] = $0; next} {have[++m] = $0}
            END {for (i = 0; i + n <= m; ++i) {for (j = 1; j <= n && have[i + j] == want[j]; ++j);
                 if (j > n) exit 0} exit 1}' "$block" "$file"; then
      ok=yes
      break
    fi
  done
  if [ "$ok" = no ]; then
    echo "README.md: this block is in no example:"
    cat "$block"
    exit 1
  fi
done
[ "$found" -gt 0 ] || { echo "README.md has no C++ block"; exit 1; }
echo "$found blocks of README.md are compiled examples"
