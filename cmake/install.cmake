# cmake --install and cpack.  Everything is found relative to the programs, so that the prefix may be moved.
include(GNUInstallDirs)
set(ingot_programs ingot-cli ingot-coordinator ingot-worker ingot-gateway ingot-text ingot-journal ingot-quantize)
if(TARGET ingot-pull)
  list(APPEND ingot_programs ingot-pull)
endif()
set(ingot_share ${CMAKE_INSTALL_DATADIR}/ingot)

install(TARGETS ${ingot_programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ingot_shared EXPORT IngotTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${INGOT_STATIC_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES client/lib/ingot.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES proto/ingot.proto DESTINATION ${ingot_share})
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Packages of pkg-config and CMake
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH INGOT_PC_PREFIX /${pc_dir} /)
configure_file(cmake/ingot.pc.in ${CMAKE_BINARY_DIR}/ingot.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ingot.pc DESTINATION ${pc_dir})
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Ingot)
configure_package_config_file(cmake/IngotConfig.cmake.in ${CMAKE_BINARY_DIR}/IngotConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/IngotConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/IngotConfig.cmake ${CMAKE_BINARY_DIR}/IngotConfigVersion.cmake
  DESTINATION ${package_dir})
install(EXPORT IngotTargets NAMESPACE Ingot:: DESTINATION ${package_dir})

# Manual pages and completions: the programs have the texts.
if(NOT CMAKE_CROSSCOMPILING)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/man1.made
    COMMAND ${CMAKE_COMMAND} -DBIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY} -DOUT=${CMAKE_BINARY_DIR}/man1
      -P ${CMAKE_SOURCE_DIR}/cmake/man_pages.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/man1.made
    DEPENDS ${ingot_programs} ${CMAKE_SOURCE_DIR}/cmake/man_pages.cmake
    COMMENT "manual pages"
    VERBATIM)
  add_custom_target(man_pages ALL DEPENDS ${CMAKE_BINARY_DIR}/man1.made)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()
install(PROGRAMS deploy/run-group.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME ingot-run-group)
install(FILES deploy/run-group-hosts.sh DESTINATION ${ingot_share})
install(FILES deploy/completions/ingot.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ingot)
install(FILES deploy/completions/_ingot DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)

# The model of `ingot run demo-model`; the build folder has it at the same place, seen from the programs.
set(demo_model deploy/demo-model)
install(FILES ${demo_model}/config.json ${demo_model}/generation_config.json ${demo_model}/model.safetensors
  ${demo_model}/tokenizer.json ${demo_model}/tokenizer_config.json ${demo_model}/README.md
  DESTINATION ${ingot_share}/demo-model)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/ingot)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${demo_model} ${CMAKE_BINARY_DIR}/share/ingot/demo-model SYMBOLIC)

# systemd needs absolute paths: those of the prefix that `cmake --install` is told.
install(CODE "
  foreach(unit ingot ingot-coordinator ingot-worker)
    file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/\${unit}.service\" text)
    string(REPLACE /usr/local/bin/ \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/\" text \"\${text}\")
    set(path \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/\${unit}.service\")
    file(WRITE \"\$ENV{DESTDIR}\${path}\" \"\${text}\")
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${path}\")
    message(STATUS \"Installing: \$ENV{DESTDIR}\${path}\")
  endforeach()")

# A package for Debian and Ubuntu: cpack -G DEB
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ingot)
set(CPACK_PACKAGE_CONTACT "Ingot developers <ingot@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Multi-process, tensor-parallel serving of large language models")
set(CPACK_SET_DESTDIR ON) # so that the prefix below is known when the units are written
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # with a trigger for ldconfig
if(INGOT_MPI)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin) # mpirun; libraries are found by what is linked
endif()
include(CPack)
