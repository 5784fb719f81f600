# What src/pool/CMakeLists.txt takes in for the log and checksums; paths are relative to it.
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)

set(POOL_LOG_SOURCES
  checksum.cc
  log/format.cc
  log/live_set.cc
  log/log_file.cc
  log/name_index.cc
  log/log_state.cc
  log/store_io.cc
  log/scan.cc
  log/recovery.cc
  log/writer.cc
  log/writer_head.cc
  log/compactor.cc
  log/log.cc)
set(POOL_LOG_TESTS
  checksum_test.cc
  log/format_test.cc
  log/log_test.cc)
set(POOL_LOG_LIBRARIES PkgConfig::XXHASH PkgConfig::ISAL)
