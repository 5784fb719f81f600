# shellcheck shell=bash
# The prefix of an installation, absolute: $prefix from PREFIX. For scripts that source this.
prefix=${PREFIX:-/usr/local}
# shellcheck disable=SC2088  # the tilde is text
case $prefix in
  "~/"*) prefix=$HOME/${prefix#"~/"} ;; # a shell may leave it to make, which does not know it
  /*) ;;
  *) prefix=$PWD/$prefix ;;
esac
while [[ $prefix == ?*/ ]]; do prefix=${prefix%/}; done
