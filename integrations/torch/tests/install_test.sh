#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs blink_torch by pip into a new environment, away from the network, and uses it there.
#
#     install_test.sh PYTHON      # one that has PyTorch
#
# Exits with 77 if the Python lacks PyTorch, pip, venv, or setuptools that make wheels.
set -eu
python=${1:-python3}
source=$(cd "$(dirname "$0")/.." && pwd)
unset PYTHONPATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

skip() {
  echo "skipped: $1"
  exit 77
}
fail() {
  echo "FAIL: $1"
  exit 1
}
"$python" -c 'import torch.distributed' 2> /dev/null || skip "$python has no PyTorch"
"$python" -m pip --version > /dev/null 2>&1 || skip "$python has no pip"
"$python" -c 'import setuptools.command.bdist_wheel' 2> /dev/null ||
  "$python" -c 'import setuptools, wheel' 2> /dev/null || skip "$python has no setuptools with wheel"
"$python" -m venv --without-pip --system-site-packages env > /dev/null 2>&1 || skip "$python has no venv"
# If PYTHON is itself of an environment, the new one does not see its packages.
packages=$(env/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -c 'import sys; print("\n".join(p for p in sys.path if p.endswith("-packages")))' \
  > "$packages/of_python.pth"

listing() { (cd "$source" && find . -type f | sort); }
before=$(listing)

echo "== install"
MAX_JOBS=${MAX_JOBS:-2} env/bin/python -m pip install --no-build-isolation --no-deps --no-index \
  --no-cache-dir --ignore-installed --disable-pip-version-check "$source" > log 2>&1 ||
  { tail -n 40 log; fail "pip install"; }
[ "$(listing)" = "$before" ] || fail "the build leaves files among the sources"

echo "== two processes"
cat > program.py << 'END'
import os
import sys

import torch
import torch.distributed as dist

if [int(part) for part in torch.__version__.split(".")[:2]] < [2, 15]:
    import blink_torch  # before 2.15 PyTorch does not look for backends that are installed
else:
    assert "blink_torch" not in sys.modules
rank = int(sys.argv[1])
dist.init_process_group("blink", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
place = os.path.realpath(sys.modules["blink_torch"].__file__)
assert place.startswith(os.path.realpath(sys.prefix)), place
data = torch.full((1000,), rank + 1.0)
dist.all_reduce(data)
assert bool((data == 3).all()), data
print("rank %d: PyTorch %s, %s" % (rank, torch.__version__, place))
dist.destroy_process_group()
END
for rank in 0 1; do
  timeout 120 env/bin/python program.py $rank "$work/store" &
  ranks[rank]=$!
done
for rank in 0 1; do
  wait "${ranks[rank]}" || fail "rank $rank"
done

# expect_refusal TEXT...: importing the package fails with an error that has each text.
expect_refusal() {
  if env/bin/python -c 'import blink_torch' > refusal 2>&1; then fail "imported, expected '$1'"; fi
  for text in "$@"; do
    grep -q -- "$text" refusal || { cat refusal; fail "the error lacks '$text'"; }
  done
}

echo "== another PyTorch"
package=$(env/bin/python -c 'import importlib.util as u; print(u.find_spec("blink_torch").submodule_search_locations[0])')
present=$("$python" -c 'import torch; print(torch.__version__)')
cp "$package/_built_for.py" built_for
grep -q "\"$present\"" built_for || fail "no record of PyTorch $present"
echo 'torch = "0.9.1"' > "$package/_built_for.py"
expect_refusal "built for PyTorch 0.9.1" "this is PyTorch $present" "build it again"
cp built_for "$package/_built_for.py"
for library in "$package"/_C*.so; do echo "no library" > "$library"; done
expect_refusal "does not load with PyTorch $present" "install --no-build-isolation"

echo "== archive of sources"
(cd "$source" && "$python" -c 'import sys; from setuptools import build_meta
build_meta.build_sdist(sys.argv[1])' "$work") > log 2>&1 || { tail -n 40 log; fail "build_sdist"; }
tar -tzf "$work"/blink_torch-*.tar.gz | cut -d / -f 2- > archived
for file in setup.py pyproject.toml LICENSE $(cd "$source" && ls src/*.cpp src/*.hpp blink_torch/*.py) \
  $(cd "$source/../.." && find include -name '*.hpp'); do
  grep -qx -- "$file" archived || fail "the archive lacks $file"
done
[ "$(listing)" = "$before" ] || fail "the archive leaves files among the sources"
echo "ok"
