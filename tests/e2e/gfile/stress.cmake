# Random operations against a model; `make test-stress` runs them for a long time.
tanada_kernel_program(gfile_stress FOR_GPUS SOURCES e2e/gfile/gfile_stress.cu)
add_test(NAME gfile_stress COMMAND gfile_stress --seconds 8 --seed 7 --root ${CMAKE_CURRENT_BINARY_DIR}/ --root mem://stress/)
add_test(NAME gfile_stress_plants
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/e2e/gfile/plants.py $<TARGET_FILE:gfile_stress>)
set_tests_properties(gfile_stress gfile_stress_plants PROPERTIES TIMEOUT 240)
