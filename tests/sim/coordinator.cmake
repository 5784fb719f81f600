# The simulation of clients of a coordinator that loses requests and answers; tests/CMakeLists.txt
# includes this.
tanada_test(coordinator_sim OPTIMIZED SOURCES sim/coordinator_sim_test.cc MODULES sim TIMEOUT 120)
