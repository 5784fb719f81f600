# The simulation of fabrics; tests/CMakeLists.txt includes this.
tanada_test(fabric_sim SOURCES sim/fabric_sim_test.cc MODULES sim TIMEOUT 120)
