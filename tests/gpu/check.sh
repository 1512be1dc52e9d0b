#!/usr/bin/env bash
# Everything that can be checked on one GPU, in less than ten minutes: builds for that GPU, compares every op
# and whole models with their references, runs compute-sanitizer, measures, prints one table.  Needs a compiler,
# CMake, the CUDA toolkit and cJSON; no network, no MPI, no Criterion.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  cat <<'END'
usage: tests/gpu/check.sh [option...]
  --emulated        the same programs on the host emulator with few, small cases; times mean nothing
  --bin DIR         programs that are built already
  --build DIR       build folder (default: build/gpu-check)
  --stories DIR     folder of stories260K and stories260K-bf16 (default: of the bundle, or shared data)
  --cjson DIR       folder with include/cjson/cJSON.h and lib/libcjson.so (default: of the bundle)
  --no-bench        no benchmark and no peer
  --json FILE       results and figures
  --logs DIR        full output of each part (default: a temporary folder)
  --bundle DIR      writes what a GPU machine needs to a new folder and ends; there: DIR/tests/gpu/check.sh
END
}

emulated='' bin='' build=$root/build/gpu-check stories='' cjson='' bench=1 json='' logs='' bundle=''
while [ $# -gt 0 ]; do
  case $1 in
  --emulated) emulated=_emulated ;;
  --no-bench) bench='' ;;
  --bin | --build | --stories | --cjson | --json | --logs | --bundle)
    [ $# -gt 1 ] || { usage >&2; exit 2; }
    printf -v "${1#--}" %s "$2"
    shift
    ;;
  *)
    usage >&2
    exit 2
    ;;
  esac
  shift
done

[ -n "$stories" ] || for d in "$root/gpu-data" "${INGOT_DATA:-$root/../shared/data}/models"; do
  if [ -z "$stories" ] && [ -d "$d/stories260K" ]; then stories=$d; fi
done
if [ -z "$cjson" ] && [ -d "$root/gpu-data/cjson" ]; then cjson=$root/gpu-data/cjson; fi

# Sources, models and cJSON: what --cjson and --stories default to on the other machine.
make_bundle() {
  local to=$1 header library
  [ ! -e "$to" ] || { echo "check.sh: $to exists" >&2; exit 1; }
  header=$(echo '#include <cjson/cJSON.h>' | ${CC:-cc} -M -x c - | grep -o '/[^ ]*cJSON\.h' | head -n 1)
  library=$(${CC:-cc} -print-file-name=libcjson.so)
  if [ ! -r "$header" ] || [ ! -r "$library" ]; then
    echo "check.sh: no cJSON (header, libcjson.so) here" >&2
    exit 1
  fi
  mkdir -p "$to/gpu-data/cjson/include/cjson" "$to/gpu-data/cjson/lib" "$to/tests/golden"
  (cd "$root" && cp -r --parents CMakeLists.txt LICENSE cmake common backends collectives worker \
    tests/*.h tests/ops tests/emulator tests/gpu tests/golden/models "$to")
  cp "$header" "$to/gpu-data/cjson/include/cjson/"
  cp -L "$library" "$to/gpu-data/cjson/lib/libcjson.so.1"
  ln -s libcjson.so.1 "$to/gpu-data/cjson/lib/libcjson.so"
  for name in stories260K stories260K-bf16; do
    [ -d "$stories/$name" ] || continue
    mkdir -p "$to/gpu-data/$name"
    cp "$stories/$name"/{config,generation_config,expected}.json "$stories/$name"/model*.safetensors \
      "$to/gpu-data/$name/"
    if [ -e "$stories/$name/model.safetensors.index.json" ]; then
      cp "$stories/$name/model.safetensors.index.json" "$to/gpu-data/$name/"
    fi
  done
  chmod -R u+w "$to"
  du -sh "$to"
}
if [ -n "$bundle" ]; then
  make_bundle "$bundle"
  exit
fi

[ -n "$logs" ] || logs=$(mktemp -d)
mkdir -p "$logs"
names=() verdicts=() passes=() fails=() skips=() seconds=() notes=()

# row NAME VERDICT PASSED FAILED SKIPPED SECONDS NOTE
row() {
  names+=("$1") verdicts+=("$2") passes+=("$3") fails+=("$4") skips+=("$5") seconds+=("$6") notes+=("$7")
  printf '%-18s %-8s %5d passed %3d failed %3d skipped %5d s  %s\n' "$@"
}
skip_row() { row "$1" skipped 0 0 1 0 "$2"; }

# suite NAME COMMAND...: a program that writes TAP.  One that dies counts as a failure.
suite() {
  local name=$1 log=$logs/$1.log start=$SECONDS rc=0 pass fail skip note=''
  shift
  timeout -k 10 "${limit:-300}" "$@" >"$log" 2>&1 || rc=$?
  skip=$(grep -cE '^ok .*# SKIP' "$log" || true)
  pass=$(($(grep -cE '^ok ' "$log" || true) - skip))
  fail=$(grep -cE '^not ok ' "$log" || true)
  note=$(grep -E -m 1 '^not ok ' "$log" || true)
  if ! grep -qE '^1\.\.[1-9]' "$log" || { [ "$rc" != 0 ] && [ "$fail" = 0 ]; }; then
    fail=$((fail + 1))
    note="ended with status $rc: $(grep -v '^ok ' "$log" | tail -n 1 || true)"
  fi
  row "$name" "$([ "$fail" = 0 ] && echo passed || echo FAILED)" "$pass" "$fail" "$skip" $((SECONDS - start)) "$note"
}

# step NAME COMMAND...: one case; its status decides.
step() {
  local name=$1 log=$logs/$1.log start=$SECONDS rc=0
  shift
  timeout -k 10 "${limit:-300}" "$@" >"$log" 2>&1 || rc=$?
  if [ "$rc" = 0 ]; then
    row "$name" passed 1 0 0 $((SECONDS - start)) ''
  else
    row "$name" FAILED 0 1 0 $((SECONDS - start)) "status $rc: $(grep -iE -m 1 'error|not ok' "$log" || tail -n 1 "$log")"
  fi
  return "$rc"
}

configure_and_build() {
  local arch=$1 options=(-DINGOT_CUDA_CHECK=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo)
  if [ -n "$emulated" ]; then options+=(-DINGOT_CUDA=OFF); else
    options+=(-DINGOT_CUDA=ON "-DINGOT_CUDA_ARCHS=$arch")
  fi
  [ -z "$cjson" ] || options+=("-DINGOT_CJSON_ROOT=$cjson")
  if command -v ninja >/dev/null; then options+=(-G Ninja); fi
  cmake -S "$root" -B "$build" "${options[@]}"
  cmake --build "$build" --parallel "$(nproc)" --target "${programs[@]}"
}

# sanitize TOOL COMMAND...: one case.  A runtime that refuses the tool is a reason to skip, nothing else is.
sanitize() {
  local tool=$1 log=$logs/$1.log start=$SECONDS rc=0 refused
  shift
  if [ -n "$emulated" ]; then
    skip_row "$tool" "compute-sanitizer is for a GPU"
    return
  elif ! command -v compute-sanitizer >/dev/null; then
    skip_row "$tool" "no compute-sanitizer"
    return
  fi
  timeout -k 10 90 compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$log" 2>&1 || rc=$?
  refused=$(grep -iE -m 1 'device not supported|failed to initialize|not supported on' "$log" || true)
  if [ "$rc" = 0 ]; then
    row "$tool" passed 1 0 0 $((SECONDS - start)) ''
  elif [ -n "$refused" ]; then
    skip_row "$tool" "compute-sanitizer does not run here: $refused"
  else
    row "$tool" FAILED 0 1 0 $((SECONDS - start)) "status $rc: $(grep -E -m 1 '^=+ [A-Z]' "$log" || tail -n 1 "$log")"
  fi
}

programs=("gpu_ops$emulated" "gpu_model$emulated" "bench_linear$emulated" "bench_gpu$emulated")
device='host emulator' arch=
if [ -z "$emulated" ]; then
  command -v nvidia-smi >/dev/null || { echo "check.sh: no GPU here (no nvidia-smi); --emulated needs none" >&2; exit 1; }
  device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
  arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  if [ "$arch" = 90 ]; then arch=90a; fi
  arch=$arch-real
fi
echo "device: $device"
few=()
[ -z "$emulated" ] || few=(--few)

if [ -z "$bin" ]; then
  bin=$build/bin
  limit=400 step build configure_and_build "$arch" || { tail -n 30 "$logs/build.log"; exit 1; }
fi
ops=$bin/gpu_ops$emulated model=$bin/gpu_model$emulated
models=(--models "$root/tests/golden/models")
[ -z "$stories" ] || models+=(--stories "$stories")

suite ops "$ops" "${few[@]}"
suite same-bytes "$model" "${models[@]}" --only same "${few[@]}"
suite golden "$model" "${models[@]}" --only golden "${few[@]}"
suite stories "$model" "${models[@]}" --only stories "${few[@]}"
skip_row mpi "these programs are built without MPI; ranks are started by fork (same-bytes)"
for tool in memcheck racecheck synccheck; do
  sanitize "$tool" "$model" "${models[@]}" --only golden --few
done

figures=''
if [ -z "$bench" ]; then
  skip_row bench-linear "--no-bench"
  skip_row bench "--no-bench"
else
  tiny=()
  [ -z "$emulated" ] || tiny=(--tiny)
  if step bench-linear "$bin/bench_linear$emulated" "${tiny[@]}" && [ -z "$emulated" ]; then
    cat "$logs/bench-linear.log"
  fi
  if limit=150 step bench "$bin/bench_gpu$emulated" "${tiny[@]}" --json "$logs/bench.json"; then
    figures=$logs/bench.json
    if [ -z "$emulated" ]; then cat "$logs/bench.log"; fi
  fi
fi

peer=''
if [ -z "$bench" ]; then
  skip_row peer "--no-bench"
elif [ -n "$emulated" ]; then
  skip_row peer "the peer needs a GPU"
elif ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>"$logs/torch.log"; then
  skip_row peer "no torch with CUDA: $(tail -n 1 "$logs/torch.log")"
elif limit=120 step peer python3 "$root/tests/gpu/peer_torch.py" --json "$logs/peer.json"; then
  peer=$logs/peer.json
  cat "$logs/peer.log"
fi

quote() { printf '"%s"' "$(printf %s "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"; }
write_json() {
  local i sep=''
  printf '{"device": %s, "suites": [' "$(quote "$device")"
  for i in "${!names[@]}"; do
    printf '%s\n  {"name": %s, "verdict": %s, "passed": %d, "failed": %d, "skipped": %d, "seconds": %d, "note": %s}' \
      "$sep" "$(quote "${names[i]}")" "$(quote "${verdicts[i]}")" "${passes[i]}" "${fails[i]}" "${skips[i]}" \
      "${seconds[i]}" "$(quote "${notes[i]}")"
    sep=,
  done
  printf '\n], "bench": %s, "peer": %s}\n' "$([ -n "$figures" ] && cat "$figures" || echo null)" \
    "$([ -n "$peer" ] && cat "$peer" || echo null)"
}
[ -z "$json" ] || write_json >"$json"

sum() { local n=0 v; for v in "$@"; do n=$((n + v)); done; echo "$n"; }
# For tests/run.sh: a line for each row.
if [ -n "${INGOT_TAP:-}" ]; then
  for i in "${!names[@]}"; do
    prefix=ok suffix=''
    case ${verdicts[i]} in
    FAILED) prefix='not ok' ;;
    skipped) suffix=" # SKIP ${notes[i]}" ;;
    esac
    echo "$prefix $((i + 1)) - gpu check: ${names[i]}$suffix"
  done >"$INGOT_TAP"
  echo "1..${#names[@]}" >>"$INGOT_TAP"
fi
failed=$(sum "${fails[@]}")
echo "logs: $logs"
echo "$(sum "${passes[@]}") passed, $failed failed, $(sum "${skips[@]}") skipped"
[ "$failed" = 0 ]
