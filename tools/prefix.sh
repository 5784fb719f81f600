# The prefix of an installation, absolute: $prefix from PREFIX. For scripts that source this.
prefix=${PREFIX:-/usr/local}
case $prefix in
  "~/"*) prefix=$HOME/${prefix#"~/"} ;;  # a shell may leave it to make, which does not know it
  /*) ;;
  *) prefix=$PWD/$prefix ;;
esac
while [[ $prefix == ?*/ ]]; do prefix=${prefix%/}; done
