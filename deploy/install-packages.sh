#!/usr/bin/env bash
# Installs what Ingot needs on Debian, Ubuntu (apt) and macOS (Homebrew); elsewhere it says what that is.
#   deploy/install-packages.sh [--tests] [--dry-run]
#   --tests    also what the test suite uses
#   --dry-run  only say what would be installed
set -euo pipefail

packages=(build-essential cmake ninja-build pkg-config libopenmpi-dev openmpi-bin libzmq3-dev libprotobuf-c-dev
  protobuf-c-compiler libcjson-dev libpcre2-dev libutf8proc-dev libevent-dev libssl-dev libedit-dev libcurl4-openssl-dev)
test_packages=(ccache libcriterion-dev clang libclang-rt-dev gobjc openssl xz-utils protobuf-compiler python3 python3-venv man-db zsh chromium iproute2
  gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ruby ruby-ffi-rzmq ruby-google-protobuf)
# Its installation would open this machine to logins where systemd starts services; without it the test of logins is skipped.
[ -d /run/systemd/system ] || test_packages+=(openssh-server)
dry=0 n_packages=${#packages[@]}
for arg in "$@"; do
  case "$arg" in
  --tests) packages+=("${test_packages[@]}") ;;
  --dry-run) dry=1 ;;
  *)
    sed -n '2,5s/^# \{0,1\}//p' "$0"
    [ "$arg" = --help ] || [ "$arg" = -h ] || exit 2
    exit 0
    ;;
  esac
done

if [ "$(uname)" = Darwin ] && command -v brew >/dev/null; then
  formulae=(cmake ninja pkgconf open-mpi zeromq protobuf-c cjson pcre2 utf8proc openssl@3 libevent curl)
  [ ${#packages[@]} = "$n_packages" ] || formulae+=(bash ccache criterion python@3.12 xz)
  missing=()
  for f in "${formulae[@]}"; do
    brew list --versions "$f" >/dev/null 2>&1 || missing+=("$f")
  done
  if [ ${#missing[@]} = 0 ]; then
    echo "packages: everything is there"
    exit 0
  fi
  echo "packages to install: ${missing[*]}"
  [ "$dry" = 1 ] || HOMEBREW_NO_AUTO_UPDATE=1 brew install "${missing[@]}"
  exit
fi
if ! command -v apt-get >/dev/null; then
  cat >&2 <<TXT
This script knows apt and Homebrew.  Install, by the names of your system:
  a C11 compiler, CMake >= 3.20, pkg-config, Open MPI (or any MPI), ZeroMQ >= 4.2, protobuf-c with protoc-c,
  cJSON, PCRE2, utf8proc, OpenSSL >= 1.1.1, libevent >= 2.1 (with its OpenSSL part), libedit (line editing in the
  chat, optional), libcurl >= 7.68 (ingot pull, optional); for the tests Criterion.
TXT
  exit 1
fi

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
done
if [ ${#missing[@]} = 0 ]; then
  echo "packages: everything is there"
  exit 0
fi
as_root=()
if [ "$(id -u)" != 0 ] && [ "$dry" = 0 ]; then
  as_root=(sudo)
  [ -t 0 ] || as_root+=(-n) # without a terminal a password cannot be typed
  if ! command -v sudo >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
    echo "missing packages, and neither root nor sudo to install them: apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
echo "packages to install: ${missing[*]}"
[ "$dry" = 1 ] && exit 0
"${as_root[@]}" apt-get update -q
# RUNLEVEL: without systemd, no service is started either
"${as_root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
