# SPDX-License-Identifier: Apache-2.0
"""Builds blink_torch against the PyTorch that is installed:

    pip install --no-build-isolation ./integrations/torch

It builds in a temporary folder, so that the sources stay as they are.
"""

import atexit
import os
import pathlib
import shutil
import subprocess
import tempfile

import setuptools
import torch
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from torch.utils import cpp_extension

here = pathlib.Path(__file__).resolve().parent


def blink_headers():
    """Returns the folder of blink's headers: that of the archive, or of the repository."""
    places = [os.environ.get("BLINK_INCLUDE"), here / "include", here.parent.parent / "include"]
    for place in [pathlib.Path(p) for p in places if p]:
        if (place / "blink" / "collectives.hpp").exists():
            return place
    raise SystemExit(
        "blink_torch: no blink/collectives.hpp in %s, expected blink's headers (BLINK_INCLUDE)"
        % " or ".join(str(p) for p in places if p)
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


class with_version(build_py):
    """Records the PyTorch that the library is for, which is compared at import."""

    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "blink_torch"
        if package.is_dir():
            (package / "_built_for.py").write_text('torch = "%s"\n' % torch.__version__)


class with_headers(sdist):
    """Adds the license, and the headers, which are not among the sources of the extension."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for header in (here / "src").glob("*.hpp"):
            shutil.copy(header, os.path.join(base_dir, "src"))
        shutil.copytree(headers, os.path.join(base_dir, "include"), dirs_exist_ok=True)
        for license in (here / "LICENSE", headers.parent / "LICENSE"):
            if license.exists():
                shutil.copy(license, base_dir)


headers = blink_headers()
compile_ucx, link_ucx = ucx() or ([], [])
if link_ucx:
    compile_ucx.append("-DBLINK_TORCH_UCX")
print("blink_torch: %s UCX, for ranks of several hosts" % ("with" if link_ucx else "without"))

scratch = tempfile.mkdtemp(prefix="blink_torch-")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)

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
            include_dirs=[str(headers)],
            extra_compile_args=["-std=c++20", "-O3", "-DNDEBUG", "-g0"] + compile_ucx,
            extra_link_args=link_ucx,
        )
    ],
    cmdclass={
        "build_ext": cpp_extension.BuildExtension,
        "build_py": with_version,
        "sdist": with_headers,
    },
    options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
    # PyTorch 2.15 finds the backend by this; earlier ones need `import blink_torch`.
    entry_points={"torch.distributed.backends": ["blink = blink_torch:register"]},
)
