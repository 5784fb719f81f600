# What src/products/poold/CMakeLists.txt takes in for the log; paths are relative to it.
set(LOG_SOURCES
  log/format.cc
  log/live_set.cc
  log/name_index.cc
  log/log_file.cc
  log/reserve_file.cc
  log/store_io.cc
  log/scan.cc
  log/recovery.cc
  log/writer.cc
  log/writer_head.cc
  log/compactor.cc
  log/log.cc)
set(LOG_TESTS log/format_test.cc log/group_gate_test.cc log/log_test.cc)
