# The simulation of fabrics; tests/CMakeLists.txt includes this.
tanada_test(fabric_sim OPTIMIZED SOURCES sim/fabric_sim_test.cc MODULES sim TIMEOUT 120)
