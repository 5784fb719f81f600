# Random operations against a model; `make test-stress` runs them for long.
tanada_kernel_program(gfile_stress SOURCES stress/gfile_stress.cu)
set(stress_roots --root ${CMAKE_CURRENT_BINARY_DIR}/ --root mem://stress/)
add_test(NAME gfile_stress COMMAND gfile_stress --seconds 8 --seed 7 ${stress_roots})
set_tests_properties(gfile_stress PROPERTIES TIMEOUT 120)
# Each of its checks fails when it should.
set(stress_plants
    "lost:(own write is not there|older than what was there)" "misplaced:word of another place" "too_new:version that nobody wrote" "failed:call failed"
    "cut_short:short read" "too_old:older than what was there" "wrong_size:wrong size" "not_cut:that was cut off"
    "made_twice:made that was there")
foreach(plant ${stress_plants})
  string(REGEX MATCH "^[a-z_]+" name ${plant})
  string(REGEX REPLACE "^[a-z_]+:" "" told ${plant})
  add_test(NAME gfile_stress_finds_${name} COMMAND gfile_stress --seconds 20 --seed 7 --plant ${name} ${stress_roots})
  set_tests_properties(gfile_stress_finds_${name} PROPERTIES TIMEOUT 120 PASS_REGULAR_EXPRESSION "wrong in round [0-9]+: .*${told}")
endforeach()
