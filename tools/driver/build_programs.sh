#!/usr/bin/env bash
# Compile the programs of tests/driver, one in each of its folders. They need the C library only.
# usage: tools/driver/build_programs.sh FOLDER
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."
compile=("${CC:-cc}" -std=gnu11 -O1 -g -D_GNU_SOURCE -Wall -Wextra -Wshadow -Werror -I include -I . -pthread)
for sources in tests/driver/*/; do
  "${compile[@]}" -o "$folder/$(basename "$sources")" "$sources"*.c
done
