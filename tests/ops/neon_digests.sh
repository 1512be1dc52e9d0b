#!/usr/bin/env bash
# Built for 64-bit Arm and run by qemu's user emulation, on each instruction set: the digests of every op case
# (ops_digest), products with every quantised type and few and many rows (quant_rows), and the choice of the
# instruction set.
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
    cmake --build "$build" --target ops_digest quant_rows -j "$(nproc)"
}
if ! build_digest >"$build.log" 2>&1; then
  cat "$build.log"
  exit 1
fi
for isa in neon neondot neoni8mm; do
  qemu-aarch64 "$build/bin/ops_digest" "$isa" >"$build.$isa"
  diff tests/ops/digests.txt "$build.$isa"
  for order in bf16 bf16-tiles; do
    qemu-aarch64 "$build/bin/ops_digest" "$isa" "$order" >"$build.$isa-$order"
    diff "tests/ops/digests-$order.txt" "$build.$isa-$order"
  done
  echo "$isa: $(wc -l <"$build.$isa") digests are equal"
  qemu-aarch64 "$build/bin/quant_rows" "$isa"
done

# A processor gets the best that it has, and nothing that it has not.
choice() {
  local chosen
  chosen=$(qemu-aarch64 -cpu "$1" "$build/bin/quant_rows" auto q8_0 3 256)
  case $chosen in
    *", $2, "*) echo "$1: $2" ;;
    *)
      echo "$1: '$chosen', not $2"
      exit 1
      ;;
  esac
}
choice max neoni8mm
choice neoverse-n1 neondot # no FEAT_I8MM
choice cortex-a72 neon     # no FEAT_DotProd either
if qemu-aarch64 -cpu neoverse-n1 "$build/bin/quant_rows" neoni8mm q8_0 3 256 2>"$build.refused"; then
  echo "neoni8mm was not refused on a processor without it"
  exit 1
fi
grep "instruction set 'neoni8mm' is not possible here" "$build.refused"
