"""Shared parts of the tests of the Python package."""

import contextlib
import fcntl
import importlib
import os
import pathlib
import random
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def locked(path):
    """One process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def content_of(size, seed=1):
    """Bytes of that size, the same ones each time."""
    return random.Random(seed).randbytes(size)


@contextlib.contextmanager
def raises(tanada, name, message=""):
    """Expects a tanada.Error of that name."""
    with pytest.raises(tanada.Error, match=message or None) as caught:
        yield
    assert caught.value.name == name, caught.value


def needed(name, version=None):
    """A module without which the test is skipped. If every package should be installed
    (tools/test_python.sh), the test fails.

    version: the oldest sufficient one.
    """
    return (
        importlib.import_module(name)
        if "TANADA_EVERY_PACKAGE" in os.environ
        else pytest.importorskip(name, version)
    )
