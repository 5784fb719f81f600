# What `make install` installs: the library, its plugins in ${libdir}/tanada where the loaders look, the public headers
# and the files that find_package and pkg-config read. The
# components `headers` and `plugins` are in the Python package too.
include(CMakePackageConfigHelpers)

install(TARGETS tanada shmem nvshmem EXPORT tanadaTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

function(tanada_collect_plugins folder result)
  set(found "")
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "MODULE_LIBRARY")
      list(APPEND found ${target})
    endif()
  endforeach()
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS subfolders)
    tanada_collect_plugins(${subfolder} inner)
    list(APPEND found ${inner})
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

tanada_collect_plugins(${PROJECT_SOURCE_DIR} plugins)
if(TARGET plugin_TANADA)
  # NIXL tries to load every file of this name in a folder: it has one of its own.
  list(REMOVE_ITEM plugins plugin_TANADA)
  install(TARGETS plugin_TANADA LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tanada/nixl)
endif()
# What is built before an installation.
add_custom_target(installed DEPENDS tanada shmem tanada_command tanada_poold_program ${plugins})
if(TARGET plugin_TANADA)
  add_dependencies(installed plugin_TANADA)
endif()
if(plugins)
  install(TARGETS ${plugins} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tanada COMPONENT plugins)
endif()

install(DIRECTORY include/tanada DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headers)
# In a folder of their own, as another library's headers of these names may be in the prefix. oshcc passes -I for it.
install(DIRECTORY include/compat/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/shmem PATTERN comex EXCLUDE)
# For Global Arrays, which takes folders for both. Of one MPI: no part of the CMake package.
if(TARGET comex)
  add_dependencies(installed comex armci)
  install(TARGETS comex armci LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY include/compat/comex/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/comex)
endif()

install(FILES LICENSE NOTICE CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Those that need nothing but what is installed. The others draw pictures by a library of this tree, or are programs of Global Arrays.
set(examples_folder ${CMAKE_INSTALL_DATADIR}/tanada/examples)
foreach(name columns common graphsage lbm nvshmem o2g pool python shmem stencil2d string_match twice
        vector_add)
  install(DIRECTORY examples/${name} DESTINATION ${examples_folder}
    FILES_MATCHING REGEX "\\.(c|cc|cu|h|hpp|py)$" PATTERN ga_program.h EXCLUDE)
endforeach()
install(FILES examples/installed.cmake DESTINATION ${examples_folder} RENAME CMakeLists.txt)

install(FILES packaging/grafana/tanada-pool.json packaging/prometheus/tanada-pool.rules.yml
  DESTINATION ${CMAKE_INSTALL_DATADIR}/tanada/monitoring)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tanada)
configure_package_config_file(cmake/tanadaConfig.cmake.in ${PROJECT_BINARY_DIR}/tanadaConfig.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tanadaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT tanadaTargets NAMESPACE tanada:: DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/tanadaConfig.cmake ${PROJECT_BINARY_DIR}/tanadaConfigVersion.cmake
              cmake/tanadaKernels.cmake
  DESTINATION ${package_folder})

tanada_install_pkg_config(tanada cmake/tanada.pc.in)
