# CMAKE_PROJECT_ingot_INCLUDE of check.sh's build: adds its programs at the end of a build without tests.
cmake_language(DEFER CALL include tests/ops/cases.cmake)
cmake_language(DEFER CALL include tests/metal/programs.cmake)
