# libshmem.so: OpenSHMEM, a library of its own, as its programs bring calls of other libraries with them. shmem.h is in a folder of
# its own in the prefix.
set(shmem_version_script ${PROJECT_SOURCE_DIR}/src/products/shmem/exported.map)
add_library(shmem SHARED $<TARGET_OBJECTS:tanada_products_shmem>)
add_library(tanada::shmem ALIAS shmem)
set_target_properties(shmem PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION 0
  LINKER_LANGUAGE CXX
  LINK_DEPENDS ${shmem_version_script})
target_link_libraries(shmem PRIVATE tanada_products_shmem)
# Its own calls of pshmem_x stay its own: a library that profiles sees what the program calls.
target_link_options(shmem PRIVATE LINKER:--version-script=${shmem_version_script} LINKER:-Bsymbolic-functions)
if(NOT TANADA_SANITIZE)
  target_link_options(shmem PRIVATE LINKER:-z,defs)
endif()
target_include_directories(shmem INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include/compat> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/shmem>)
# NVSHMEM's headers, for nvcc.
add_library(nvshmem INTERFACE)
add_library(tanada::nvshmem ALIAS nvshmem)
target_include_directories(nvshmem INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include/compat/nvshmem>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/shmem/nvshmem>)
target_link_libraries(nvshmem INTERFACE shmem tanada)
include(src/products/shmem/on_stream/library.cmake)
