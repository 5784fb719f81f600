# `make test` runs the Python tests of this folder. These two cover the commands in a run of only
# ctest.
add_test(NAME tanada_doctor COMMAND tanada_command doctor --json)
add_test(NAME tanada_stat COMMAND tanada_command gfile stat --json)
set_tests_properties(tanada_doctor tanada_stat PROPERTIES TIMEOUT 30)
