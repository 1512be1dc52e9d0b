# Libraries that Ingot stands on.  deploy/install-packages.sh installs them on Debian and Ubuntu.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq>=4.2)
# Without the include folders of the libraries that libzmq itself uses: CMake puts them into other places when it
# configures a second time, and everything that includes zmq.h would be built again.
set_target_properties(PkgConfig::ZMQ PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${ZMQ_INCLUDEDIR}" INTERFACE_COMPILE_OPTIONS "")
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c>=1.3)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto>=1.1.1)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(LIBEVENT REQUIRED IMPORTED_TARGET libevent_core>=2.1 libevent_openssl>=2.1)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl>=1.1.1)
find_program(PROTOC_C protoc-c REQUIRED)

pkg_check_modules(LIBEDIT IMPORTED_TARGET libedit)
if(NOT LIBEDIT_FOUND)
  message(WARNING "libedit not found: `ingot chat` will have no line editing and no history (install libedit-dev)")
endif()

if(INGOT_MPI)
  find_package(MPI COMPONENTS C)
  if(NOT MPI_C_FOUND)
    message(WARNING "MPI not found: building a single-rank worker (install libopenmpi-dev for more)")
    set(INGOT_MPI OFF)
  endif()
endif()

if(INGOT_TESTS)
  pkg_check_modules(CRITERION IMPORTED_TARGET criterion)
  if(NOT CRITERION_FOUND)
    message(WARNING "Criterion not found: building without tests (install libcriterion-dev)")
    set(INGOT_TESTS OFF)
  endif()
endif()
