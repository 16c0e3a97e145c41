# SPDX-License-Identifier: Apache-2.0
"""Builds blink_torch against the PyTorch that is installed:

    pip install --no-build-isolation ./integrations/torch
"""

import os
import pathlib
import subprocess

import setuptools
from torch.utils import cpp_extension

here = pathlib.Path(__file__).resolve().parent
headers = os.environ.get("BLINK_INCLUDE", str(here.parent.parent / "include"))
if not os.path.exists(os.path.join(headers, "blink", "collectives.hpp")):
    raise SystemExit(
        "blink_torch: no blink/collectives.hpp in %s, expected blink's headers (BLINK_INCLUDE)"
        % headers
    )



def ucx():
    """Returns the flags for UCX, which joins ranks of several hosts; nothing where it is not."""
    flags = []
    for kind in ("--cflags", "--libs"):
        try:
            found = subprocess.run(["pkg-config", kind, "ucx >= 1.13"], capture_output=True)
        except FileNotFoundError:
            return None
        if found.returncode != 0:
            return None
        flags.append(found.stdout.decode().split())
    return flags


compile_ucx, link_ucx = ucx() or ([], [])
if link_ucx:
    compile_ucx.append("-DBLINK_TORCH_UCX")
print("blink_torch: %s UCX, for ranks of several hosts" % ("with" if link_ucx else "without"))

setuptools.setup(
    name="blink_torch",
    version="0.1.0",
    description="Process groups of PyTorch that run on blink",
    license="Apache-2.0",
    packages=["blink_torch"],
    python_requires=">=3.9",
    ext_modules=[
        cpp_extension.CppExtension(
            "blink_torch._C",
            sorted(str(p.relative_to(here)) for p in (here / "src").glob("*.cpp")),
            include_dirs=[headers],
            extra_compile_args=["-std=c++20", "-O3", "-DNDEBUG", "-g0"] + compile_ucx,
            extra_link_args=link_ucx,
        )
    ],
    cmdclass={"build_ext": cpp_extension.BuildExtension},
    # PyTorch 2.15 finds the backend by this; earlier ones need `import blink_torch`.
    entry_points={"torch.distributed.backends": ["blink = blink_torch:register"]},
)
