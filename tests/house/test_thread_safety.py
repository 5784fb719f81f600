"""Clang's -Wthread-safety, with which the lint build compiles the tree, finds a planted race."""

import shutil
import subprocess

import pytest
import tree

CLASS = """
#include "core/base/mutex.hpp"

class account {
 public:
  void deposit(int amount) {
    DEPOSIT
  }
  int balance() TND_REQUIRES(mutex_) {
    mutex_.assert_held();
    return balance_;
  }

 private:
  tanada::mutex mutex_;
  int balance_ TND_GUARDED_BY(mutex_) = 0;
};
"""


def compile_with_clang(folder, deposit):
    compiler = shutil.which("clang++")
    if compiler is None:
        pytest.skip("clang++ is not installed")
    source = folder / "account.cc"
    source.write_text(CLASS.replace("DEPOSIT", deposit))
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wthread-safety", "-Werror"]
    command += [f"-I{tree.ROOT}/src", f"-I{tree.ROOT}/include", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "deposit",
    [
        "tanada::lock_guard const lock{mutex_}; balance_ += amount;",
        "tanada::unique_lock lock{mutex_}; balance_ += amount; lock.unlock();",
        "if (!mutex_.try_lock()) return;"
        " tanada::lock_guard const lock{mutex_, std::adopt_lock}; balance_ += amount;",
        "mutex_.assert_held(); balance_ += amount;",
    ],
)
def test_an_access_with_the_lock_compiles(tmp_path, deposit):
    done = compile_with_clang(tmp_path, deposit)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "deposit, message",
    [
        ("balance_ += amount;", "requires holding mutex 'mutex_'"),
        ("if (balance() == 0) return; (void)amount;", "requires holding mutex 'mutex_'"),
        ("mutex_.lock(); balance_ += amount;", "still held at the end of function"),
        (
            "tanada::unique_lock lock{mutex_}; lock.unlock(); balance_ += amount;",
            "requires holding mutex 'mutex_'",
        ),
    ],
)
def test_a_planted_race_is_an_error(tmp_path, deposit, message):
    done = compile_with_clang(tmp_path, deposit)
    assert done.returncode != 0
    assert message in done.stderr
