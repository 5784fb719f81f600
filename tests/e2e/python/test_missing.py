"""Modules of the package whose requirement is not installed: the error names it."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module, package, message",
    [("tanada.torch", "torch", "tanada.torch needs PyTorch: pip install 'tanada[torch]'")],
)
def test_a_package_that_is_missing(site, module, package, message):
    code = f"import sys; sys.modules['{package}'] = None; import tanada; import {module}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(site)},
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert f"ImportError: {message}" in done.stderr, done.stderr
