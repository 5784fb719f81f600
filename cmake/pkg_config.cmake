# Files of pkg-config.

# tanada_install_pkg_config(NAME TEMPLATE): installs NAME.pc. Its paths are relative to the file, so
# that the installed tree can be moved. Below /usr they are absolute, and the loader is given no
# path: pkg-config drops -I/usr/include and -L of the system's folders only if it finds exactly
# these words, and the loader searches the folder anyway. The prefix counts that is given at the
# installation.
function(tanada_install_pkg_config name template)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
    BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE up)
  set(pkg_config_prefix "\${pcfiledir}/${up}")
  configure_file(${template} ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  file(READ ${PROJECT_BINARY_DIR}/${name}.pc system)
  string(REPLACE "prefix=${pkg_config_prefix}" "prefix=/usr" system "${system}")
  string(REGEX REPLACE " -(Wl,-rpath,|Xlinker -rpath=)[^ ]*" "" system "${system}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/system/${name}.pc CONTENT "${system}" @ONLY)
  install(CODE "
    set(source \"${PROJECT_BINARY_DIR}\")
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
      string(APPEND source /system)
    endif()
    file(INSTALL \"\${source}/${name}.pc\"
      DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig\")"
    COMPONENT pkgconfig)
endfunction()
