# Toolchain file: macOS on Apple silicon or Intel, compiled on another system by `zig cc`, which has the headers and the
# symbols of macOS' system library.  INGOT_MAC_CC: a program that runs `zig cc -target ARCH-macos`; INGOT_MAC_AR and
# INGOT_MAC_RANLIB likewise; INGOT_MAC_ARCH: arm64 or x86_64.  Other libraries are headers alone (tests/macos), so the
# programs are linked and cannot run.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES INGOT_MAC_CC INGOT_MAC_AR INGOT_MAC_RANLIB INGOT_MAC_ARCH)
set(CMAKE_SYSTEM_PROCESSOR ${INGOT_MAC_ARCH})
set(CMAKE_C_COMPILER ${INGOT_MAC_CC})
set(CMAKE_AR ${INGOT_MAC_AR} CACHE FILEPATH "")
set(CMAKE_RANLIB ${INGOT_MAC_RANLIB} CACHE FILEPATH "")
set(CMAKE_INSTALL_NAME_TOOL true)
set(CMAKE_OSX_SYSROOT "")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-undefined,dynamic_lookup")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-undefined,dynamic_lookup")
