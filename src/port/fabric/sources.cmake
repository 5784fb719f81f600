# What src/port/CMakeLists.txt takes in for fabrics; paths are relative to it.
set(FABRIC_SOURCES fabric/op_check.cc fabric/registration_cache.cc)
set(FABRIC_TESTS fabric/fabric_test.cc)
