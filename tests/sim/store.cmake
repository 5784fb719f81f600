# The simulation of stores; tests/CMakeLists.txt includes this.
tanada_test(store_sim OPTIMIZED SOURCES sim/store_sim_test.cc MODULES sim TIMEOUT 120)
