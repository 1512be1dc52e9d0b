#!/usr/bin/env bash
# The digests of every op case on NEON: ops_digest built for 64-bit Arm and run by qemu's user emulation.
#   neon_digests.sh BUILD-FOLDER
# Skipped (77) only where neither exists: systems other than Linux.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:?a build folder}

if [ "$(uname -s)" != Linux ]; then
  echo "skipped: qemu's user emulation needs Linux, this is $(uname -s)"
  exit 77
fi
missing=()
command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
if [ ${#missing[@]} -gt 0 ]; then
  echo "not installed: ${missing[*]} (deploy/install-packages.sh --tests installs them)"
  exit 1
fi

build_digest() {
  local generator=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  cmake -S . -B "$build" "${generator[@]}" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64-linux.cmake" \
    -DINGOT_OPS_DIGEST=ON -DINGOT_WERROR=ON &&
    cmake --build "$build" --target ops_digest -j "$(nproc)"
}
if ! build_digest >"$build.log" 2>&1; then
  cat "$build.log"
  exit 1
fi
for isa in neon neondot; do
  qemu-aarch64 "$build/bin/ops_digest" "$isa" >"$build.$isa"
  diff tests/ops/digests.txt "$build.$isa"
  for order in bf16 bf16-tiles; do
    qemu-aarch64 "$build/bin/ops_digest" "$isa" "$order" >"$build.$isa-$order"
    diff "tests/ops/digests-$order.txt" "$build.$isa-$order"
  done
  echo "$isa: $(wc -l <"$build.$isa") digests are equal"
done
