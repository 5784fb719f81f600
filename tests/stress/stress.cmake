# Random operations against a model; `make test-stress` runs them for long.
tanada_kernel_program(gfile_stress SOURCES stress/gfile_stress.cu)
set(stress_roots --root ${CMAKE_CURRENT_BINARY_DIR}/ --root mem://stress/)
add_test(NAME gfile_stress COMMAND gfile_stress --seconds 8 --seed 7 ${stress_roots})
add_test(NAME gfile_stress_finds_a_lost_write COMMAND gfile_stress --seconds 20 --seed 7 --plant 1 ${stress_roots})
set_tests_properties(gfile_stress_finds_a_lost_write PROPERTIES PASS_REGULAR_EXPRESSION "wrong in round")
set_tests_properties(gfile_stress gfile_stress_finds_a_lost_write PROPERTIES TIMEOUT 120)
