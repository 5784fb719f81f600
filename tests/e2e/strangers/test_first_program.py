"""The first program of a user of the C library."""

PROGRAM = r"""
#include <stdio.h>
#include <tanada/version.h>

int main(void) {
  printf("%s\n", tnd_version());
  return 0;
}
"""


def test_a_c_program_is_built_by_pkg_config_from_a_prefix_with_a_blank(installed, tmp_path):
    program = installed.compile_c(tmp_path, PROGRAM, "-std=c11", "-Wall", "-Werror")
    assert installed.must(program) == "0.1.0\n"
