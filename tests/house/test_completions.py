"""Completions of shells, made of a command's --help."""

import shutil
import subprocess

import completions
import pytest

PROGRAM = r"""#!/bin/sh
case "$*" in
'pool cp --help') echo 'copy

Options:
  -h,--help                   Print this help message and exit
  --version UINT              a version
  --backing TEXT [dram]       dram, file:PATH or flash:DIR
  -r,--recursive              all of it: "quoted" and `so on`' ;;
'pool --help') echo "a pool

Subcommands:
  ls                          list it
  cp                          copy between files
" ;;
'pool ls --help') echo 'list it' ;;
'doctor --help') echo "the doctor's

Options:
  --a-rather-long-option TEXT
                              its meaning" ;;
*) echo 'A tool.

Options:
  --version                   the version

Subcommands:
  pool                        the pool
  doctor                      what is missing' ;;
esac
"""
COMPLETE = """source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_tool
echo "${COMPREPLY[*]}"
"""


@pytest.fixture
def folder(tmp_path):
    program = tmp_path / "tool"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    parts = list(completions.levels(program))
    for name, maker in (("bash", completions.bash), ("zsh", completions.zsh),
                        ("fish", completions.fish)):  # fmt: skip
        (tmp_path / f"made.{name}").write_text("\n".join(maker("tool", parts)) + "\n")
    return tmp_path


@pytest.mark.parametrize(
    "words, candidates",
    [
        (("",), "pool doctor --version"),
        (("po",), "pool"),
        (("pool", ""), "ls cp"),
        (("pool", "c"), "cp"),
        (("pool", "cp", "--"), "--help --version --backing --recursive"),
        (("pool", "cp", "--version", ""), ""),
        (("pool", "cp", "--backing", ""), "dram file: flash:"),
        (("pool", "cp", "--backing", "fi"), "file:"),
        (("pool", "cp", "--backing", "dram", "--r"), "--recursive"),
        (("pool", "cp", "a", "--r"), "--recursive"),
        (("doctor", "--"), "--a-rather-long-option"),
        (("unknown", ""), "pool doctor --version"),
    ],
)
def test_bash_completes_subcommands_and_options(folder, words, candidates):
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", folder / "made.bash", "tool", *words],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (candidates, "")


def test_fish_has_conditions_values_and_meanings(folder):
    text = (folder / "made.fish").read_text()
    inner = "__fish_seen_subcommand_from pool; and __fish_seen_subcommand_from cp"
    assert f"complete -c tool -n '{inner}' -l version -r -d 'a version'" in text
    assert "-l a-rather-long-option -r -d 'its meaning'" in text
    assert "-n 'not __fish_seen_subcommand_from pool doctor' -a pool -d 'the pool'" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_takes_its_completions(folder, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, "-n", folder / f"made.{shell}"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
