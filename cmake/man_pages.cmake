# Manual pages and completions, made at build time of --help and of docs/ by tools/man_pages.py and
# others. Without Python, or where the commands that are built do not run, the build goes on without
# them.
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND OR CMAKE_CROSSCOMPILING OR TANADA_PYTHON)
  message(STATUS
    "manual pages and completions are left out: there is no Python to make them, or nothing to run")
  return()
endif()

set(man_folder ${PROJECT_BINARY_DIR}/man)
set(man_script ${PROJECT_SOURCE_DIR}/tools/man_pages.py)
set(man_pages "")

# tanada_man_page(KIND NAME.SECTION SOURCE DEPENDS...)
function(tanada_man_page kind page source)
  set(made ${man_folder}/${page})
  add_custom_command(OUTPUT ${made}
    COMMAND ${Python3_EXECUTABLE} ${man_script} --version ${PROJECT_VERSION} ${kind} ${made} ${source}
    DEPENDS ${man_script} ${ARGN} VERBATIM)
  set(man_pages ${man_pages} ${made} PARENT_SCOPE)
  string(REGEX MATCH "[0-9]$" section ${page})
  install(FILES ${made} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endfunction()

tanada_man_page(command tanada.1 $<TARGET_FILE:tanada_command> tanada_command)
tanada_man_page(command tanada-poold.1 $<TARGET_FILE:tanada_poold_program> tanada_poold_program)
tanada_man_page(command oshrun.1 ${PROJECT_BINARY_DIR}/bin/oshrun cmd/oshmem/oshrun.in)
tanada_man_page(script oshcc.1 ${PROJECT_BINARY_DIR}/bin/oshcc cmd/oshmem/oshcc.in)
tanada_man_page(
  command tanada-nvcc.1 ${PROJECT_BINARY_DIR}/bin/tanada-nvcc cmd/oshmem/tanada-nvcc.in)
foreach(name comex errors gfile launch nvshmem o2g observe pgas pool python shmem)
  tanada_man_page(document tanada-${name}.7 ${PROJECT_SOURCE_DIR}/docs/${name}.md docs/${name}.md)
endforeach()
# One page for each call of the headers. Their names are those of the calls.
set(call_pages_script ${PROJECT_SOURCE_DIR}/tools/call_pages.py)
set(call_headers "")
foreach(name gfile.h o2g.h pool.h status.h store.h version.h device/gfile.cuh)
  list(APPEND call_headers ${PROJECT_SOURCE_DIR}/include/tanada/${name})
endforeach()
add_custom_command(OUTPUT ${man_folder}/man3.stamp
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${man_folder}/man3
  COMMAND ${Python3_EXECUTABLE} ${call_pages_script} --version ${PROJECT_VERSION}
          ${man_folder}/man3 ${call_headers}
  COMMAND ${CMAKE_COMMAND} -E touch ${man_folder}/man3.stamp
  DEPENDS ${call_pages_script} ${man_script} ${PROJECT_SOURCE_DIR}/tools/site_reference.py
          ${call_headers} VERBATIM)
list(APPEND man_pages ${man_folder}/man3.stamp)
install(DIRECTORY ${man_folder}/man3/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3
  FILES_MATCHING PATTERN "*.3")

# The other names of the wrappers.
foreach(name oshc++ oshCC oshcxx)
  file(CONFIGURE OUTPUT ${man_folder}/${name}.1 CONTENT ".so man1/oshcc.1\n")
  install(FILES ${man_folder}/${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endforeach()
file(CONFIGURE OUTPUT ${man_folder}/oshmem_info.1 CONTENT ".so man1/oshrun.1\n")
install(FILES ${man_folder}/oshmem_info.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# Completions of commands for shells, where these look for them.
set(completions_folder ${PROJECT_BINARY_DIR}/completions)
set(completions_script ${PROJECT_SOURCE_DIR}/tools/completions.py)
foreach(program tanada_command tanada_poold_program)
  set(name $<TARGET_FILE_NAME:${program}>)
  set(stamp ${completions_folder}/${program}.stamp)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${Python3_EXECUTABLE} ${completions_script} $<TARGET_FILE:${program}>
            ${completions_folder}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${completions_script} ${man_script} ${program} VERBATIM)
  list(APPEND man_pages ${stamp})
  install(FILES ${completions_folder}/${name}.bash RENAME ${name}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completions_folder}/_${name}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${completions_folder}/${name}.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()

add_custom_target(man_pages ALL DEPENDS ${man_pages})
add_dependencies(installed man_pages)
