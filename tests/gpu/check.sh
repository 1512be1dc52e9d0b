#!/usr/bin/env bash
# Everything that can be checked on one GPU, in nine minutes; usage() says how, README.md what each row is.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  cat <<'END'
usage: tests/gpu/check.sh [option...]
Checks and measures Ingot's CUDA backend on this machine's first GPU: builds for that GPU, compares every op and whole
models with their references, measures, runs compute-sanitizer.  Prints a line for each of these rows, which README.md
beside this script explains.  Needs a C and C++ compiler, CMake, the CUDA toolkit and cJSON, or a bundle with programs, which
needs the driver only and builds nothing; no network, no MPI.
Status: 0 nothing failed, 1 a row failed or nothing could run, 2 wrong options.

  --emulated        the same programs on the processor (host emulator) with few, small cases: needs no GPU and no CUDA
                    toolkit; times mean nothing
  --bin DIR         runs the programs in DIR and builds nothing
  --build DIR       build folder (default: build/gpu-check, with --prebuilt build/gpu-prebuilt); in a bundle with programs,
                    builds others
  --stories DIR     folder of the models stories260K and stories260K-bf16 (default: of the bundle, or $INGOT_DATA/models);
                    without it the row stories is skipped
  --cjson DIR       folder with include/cjson/cJSON.h and lib/libcjson.so (default: of the bundle, or the system's)
  --no-bench        skips the rows that measure
  --json FILE       writes rows and figures to FILE
  --logs DIR        the full output of each row goes to DIR/ROW.log (default: a temporary folder)
  --budget SECONDS  for all rows together (default: 540; none with --emulated); each row has a limit of its own, and one whose
                    limit is more than what is left is reported as not run.  A build comes first and takes its time off that
  --plan            prints the rows in their order with their limits, and which of them fit into the budget if each takes
                    all of its limit and nothing is built; runs nothing
  --bundle DIR      writes what a GPU machine needs to the new folder DIR, at most 64 MiB, and ends; copy DIR there and run
                    DIR/tests/gpu/check.sh
  --prebuilt        with --bundle: also the programs, for compute capability 8.x, 9.0 and 10.x and as PTX for newer ones;
                    the GPU machine then needs no compiler, this one needs the CUDA toolkit
  --help            prints this
END
}

# wrong TEXT: about the options; die TEXT: about this machine, or what was built.
wrong() { echo "check.sh: $1 (--help lists the options)" >&2; exit 2; }
die() { echo "check.sh: $1" >&2; exit 1; }

emulated='' bin='' build='' stories='' cjson='' bench=1 json='' logs='' bundle='' prebuilt='' budget='' plan=''
while [ $# -gt 0 ]; do
  case $1 in
  --emulated) emulated=_emulated ;;
  --no-bench) bench='' ;;
  --prebuilt) prebuilt=1 ;;
  --plan) plan=1 ;;
  --bin | --build | --stories | --cjson | --json | --logs | --bundle | --budget)
    [ $# -gt 1 ] || wrong "$1 needs a value"
    printf -v "${1#--}" %s "$2"
    shift
    ;;
  -h | --help)
    usage
    exit
    ;;
  *) wrong "unknown option $1" ;;
  esac
  shift
done

[ -n "$budget$emulated" ] || budget=540
case $budget in *[!0-9]*) wrong "--budget $budget is no number of seconds" ;; esac
# Rows and their limits in seconds, the most important first: they begin in this order.
limits='rank 60, ops 120, same-bytes 150, golden 90, bench 100, bench-rows 70, ranks 90, stories 90, bench-linear 90,
mpi 120, peer-itself 60, peer 120, memcheck 90, racecheck 90, synccheck 90, nccl 60'
build_limit=400
limit_of() { grep -oE "(^|[ ,])$1 [0-9]+" <<<"$limits" | grep -oE '[0-9]+$'; }
show_plan() {
  local name seconds at=0
  tr '\n' ' ' <<<"$limits" | tr ',' '\n' | while read -r name seconds || [ -n "$name" ]; do
    if [ -z "$budget" ] || [ $((at + seconds)) -le "$budget" ]; then
      at=$((at + seconds))
      printf '%-14s %4d s  fits\n' "$name" "$seconds"
    else
      printf '%-14s %4d s  only if rows before it take less\n' "$name" "$seconds"
    fi
  done
}
if [ -n "$plan" ]; then
  show_plan
  exit
fi
[ -z "$prebuilt" ] || [ -n "$bundle" ] || wrong "--prebuilt needs --bundle"
[ -z "$bundle" ] || [ -z "$emulated" ] || wrong "--bundle is for a GPU, without --emulated"
wants_build=$build
if [ -n "$prebuilt" ]; then build=${build:-$root/build/gpu-prebuilt}; else build=${build:-$root/build/gpu-check}; fi
for d in /usr/local/nvidia/bin "${CUDA_HOME:-/usr/local/cuda}/bin"; do
  if [ -d "$d" ]; then PATH=$PATH:$d; fi
done

[ -n "$stories" ] || for d in "$root/gpu-data" "${INGOT_DATA:-$root/../shared/data}/models"; do
  if [ -z "$stories" ] && [ -d "$d/stories260K" ]; then stories=$d; fi
done
if [ -z "$cjson" ] && [ -d "$root/gpu-data/cjson" ]; then cjson=$root/gpu-data/cjson; fi

programs=(gpu_ops gpu_model gpu_rank bench_linear bench_gpu)
programs=("${programs[@]/%/$emulated}")

# configure_and_build ARCHITECTURES [CMAKE OPTION...]
configure_and_build() {
  local options=(-DINGOT_CUDA_CHECK=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DINGOT_CUDA_ARCHS=$1" "${@:2}")
  if [ -n "$emulated" ]; then options+=(-DINGOT_CUDA=OFF); else options+=(-DINGOT_CUDA=ON); fi
  [ -z "$cjson" ] || options+=("-DINGOT_CJSON_ROOT=$cjson")
  [ -z "$nccl" ] || options+=("-DINGOT_NCCL_INCLUDE=$nccl")
  if command -v ninja >/dev/null; then options+=(-G Ninja); fi
  cmake -S "$root" -B "$build" "${options[@]}" &&
    cmake --build "$build" --parallel "$(nproc)" --target "${programs[@]}"
}

# Where a Python has NVIDIA's packages: libraries that are opened at run time, and NCCL's header.
nccl=''
if [ -z "$emulated" ] && [ -z "$bundle" ]; then
  wheels=$(python3 -c 'import nvidia; print("\n".join(nvidia.__path__))' 2>/dev/null || true)
  for d in $wheels; do
    for lib in "$d"/*/lib; do
      if [ -d "$lib" ]; then export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$lib; fi
    done
    if [ -r "$d/nccl/include/nccl.h" ]; then nccl=$d/nccl/include; fi
  done
fi

# The programs, and in one library beside them the backends with all kernels: without symbols and line numbers, the kernels
# compressed.  They find that library and the bundle's cJSON by their own place, and need the driver and libc besides.  C has
# the flags of other builds, for ccache; strip removes the lines.
make_programs() {
  local to=$1 file compress=-Xfatbin=-compress-all
  command -v nvcc >/dev/null || die "--prebuilt: no nvcc here"
  case $(nvcc --help) in *--compress-mode*) compress+=' --compress-mode=size' ;; esac # of 12.8 and newer
  mkdir -p "$to" "$build"
  configure_and_build '80-real;90a-real;100-real;90-virtual' -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON \
    -DINGOT_BACKENDS_SHARED=ON -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON \
    -DCMAKE_BUILD_RPATH="\$ORIGIN;\$ORIGIN/../cjson/lib" -DCMAKE_EXE_LINKER_FLAGS=-static-libgcc \
    -DCMAKE_SHARED_LINKER_FLAGS='-static-libstdc++ -static-libgcc' -DCMAKE_BUILD_TYPE=Bundle \
    -DCMAKE_C_FLAGS_BUNDLE='-O2 -g1' \
    -DCMAKE_CUDA_FLAGS_BUNDLE="-O3 $compress" >"$build/build.log" 2>&1 ||
    { tail -n 30 "$build/build.log" >&2; die "the build failed (log: $build/build.log)"; }
  for file in "${programs[@]}" libingot_backends_real.so; do strip -o "$to/$file" "$build/bin/$file"; done
}

# copy_named KIND TEXT BUNDLE: the folders of tests/golden/KIND whose name is in TEXT, as a whole or at the end of a path.
copy_named() {
  local folder
  for folder in "$root/tests/golden/$1"/*; do
    case $2 in *[\"/]"${folder##*/}\""*) cp -r "$folder" "$3/tests/golden/$1/" ;; esac
  done
}

# Sources, models and cJSON: what --cjson and --stories default to on the other machine.
make_bundle() {
  local to header library name named bytes
  to=$(realpath -m "$1")
  [ ! -e "$to" ] || die "$to exists"
  header=$(echo '#include <cjson/cJSON.h>' | ${CC:-cc} -M -x c - | grep -o '/[^ ]*cJSON\.h' | head -n 1)
  library=$(${CC:-cc} -print-file-name=libcjson.so)
  [ -r "$header" ] && [ -r "$library" ] || die "no cJSON (header, libcjson.so) here"
  mkdir -p "$to/gpu-data/cjson/include/cjson" "$to/gpu-data/cjson/lib"
  (cd "$root" && cp -r --parents CMakeLists.txt LICENSE cmake common backends collectives worker \
    tests/*.h tests/ops tests/emulator tests/gpu "$to")
  # not of tests/gpu's programs: other backends, other libraries, tests
  rm -r "$to"/tests/ops/digests*.txt "$to"/backends/metal/*.c "$to"/backends/metal/shaders \
    "$to"/common/{wire,digest} "$to"/common/text/*.c "$to/worker/quantize"
  find "$to/tests" -name 'test_*' -delete
  find "$to/tests/gpu" -name '*.py' ! -name peer_torch.py -delete
  # the models and inputs that the programs name, and the models of those inputs
  mkdir -p "$to/tests/golden/models" "$to/tests/golden/inputs"
  named=$(cat "$root"/tests/gpu/*.c)
  copy_named inputs "$named" "$to"
  named+=$(cat "$to"/tests/golden/inputs/*/expected.json)
  copy_named models "$named" "$to"
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
  find "$to" -name __pycache__ -prune -exec rm -r {} +
  [ -z "$prebuilt" ] || make_programs "$to/gpu-data/bin"
  bytes=$(bytes_of "$to")
  [ "$bytes" -le $((64 << 20)) ] || die "the bundle has $bytes bytes, more than 64 MiB: programs\
 $(bytes_of "$to/gpu-data/bin"), models $(bytes_of "$to/tests/golden")"
  echo "$to: $bytes bytes, of programs $(bytes_of "$to/gpu-data/bin")"
}
# Of the files in a folder, 0 if there is none.
bytes_of() { find "$1" -type f -printf '%s\n' 2>/dev/null | awk '{ n += $1 } END { print n + 0 }'; }
if [ -n "$bundle" ]; then
  make_bundle "$bundle"
  exit
fi

[ -n "$logs" ] || logs=$(mktemp -d)
mkdir -p "$logs"
names=() verdicts=() passes=() fails=() skips=() seconds=() notes=()

# Is there time for all of a row's limit?  Sets limit, which is for a GPU.  Without the build nothing runs: it takes what
# is left.
fits() {
  local name=$1 left
  limit=infinity
  [ -n "$budget" ] || return 0
  left=$((budget - SECONDS))
  if [ "$name" = build ]; then
    limit=$((left < build_limit ? left : build_limit))
  else
    limit=$(limit_of "$name")
  fi
  if [ "$left" -lt "$limit" ] || [ "$left" -lt 5 ]; then
    row "$name" 'not run' 0 0 1 0 "it may take $limit s, and $((left > 0 ? left : 0)) of $budget s are left (--budget)"
    return 1
  fi
}

# row NAME VERDICT PASSED FAILED SKIPPED SECONDS NOTE
row() {
  local note=$7
  if [ "$2" = FAILED ]; then note="$7 (log: $logs/$1.log)"; fi
  names+=("$1") verdicts+=("$2") passes+=("$3") fails+=("$4") skips+=("$5") seconds+=("$6") notes+=("$note")
  printf '%-12s %-8s %5d passed %3d failed %3d skipped %5d s  %s\n' "${@:1:6}" "$note"
}
skip_row() { row "$1" skipped 0 0 1 0 "$2"; }

# suite NAME COMMAND...: a program that writes TAP.  One that dies counts as a failure.
suite() {
  local name=$1 log=$logs/$1.log start=$SECONDS rc=0 pass fail skip note='' limit verdict=passed
  fits "$1" || return 0
  shift
  timeout -k 10 "$limit" "$@" >"$log" 2>&1 || rc=$?
  skip=$(grep -cE '^ok .*# SKIP' "$log" || true)
  pass=$(($(grep -cE '^ok ' "$log" || true) - skip))
  fail=$(grep -cE '^not ok ' "$log" || true)
  note=$(grep -E -m 1 '^not ok ' "$log" || true)
  if ! grep -qE '^1\.\.[1-9]' "$log" || { [ "$rc" != 0 ] && [ "$fail" = 0 ]; }; then
    fail=$((fail + 1))
    note="$(status_text "$rc" "$limit"): $(grep -v '^ok ' "$log" | tail -n 1 || true)"
  fi
  if [ "$fail" != 0 ]; then
    verdict=FAILED
  elif [ "$pass" = 0 ]; then
    verdict=skipped
    note=$(grep -m 1 '# SKIP' "$log" | sed 's/.*# SKIP *//')
  fi
  row "$name" "$verdict" "$pass" "$fail" "$skip" $((SECONDS - start)) "$note"
}

# STATUS LIMIT
status_text() {
  if [ "$1" = 124 ] || [ "$1" = 137 ]; then echo "stopped at its limit of $2 s"; else echo "ended with status $1"; fi
}

# step NAME COMMAND...: one case; its status decides.  COMMAND may be a function of this file.
step() {
  local name=$1 log=$logs/$1.log start=$SECONDS rc=0 limit
  fits "$1" || return 1
  shift
  if [ "$(type -t "$1")" = function ]; then
    within "$limit" "$@" >"$log" 2>&1 || rc=$?
  else
    timeout -k 10 "$limit" "$@" >"$log" 2>&1 || rc=$?
  fi
  if [ "$rc" = 0 ]; then
    row "$name" passed 1 0 0 $((SECONDS - start)) ''
  else
    row "$name" FAILED 0 1 0 $((SECONDS - start)) \
      "$(status_text "$rc" "$limit"): $(grep -iE -m 1 'error|not ok' "$log" || tail -n 1 "$log")"
  fi
  return "$rc"
}

# within SECONDS FUNCTION...: a function with a time limit, in a process group of its own.
within() {
  local seconds=$1 pid watch rc=0
  shift
  set -m
  ("$@") &
  pid=$!
  (sleep "$seconds" && kill -- -"$pid") >/dev/null 2>&1 &
  watch=$!
  set +m
  wait "$pid" || rc=$?
  kill -- -"$watch" 2>/dev/null || true # its sleep too
  [ "$rc" != 143 ] || rc=124
  return "$rc"
}

# sanitize TOOL COMMAND...: one case.  A runtime that refuses the tool is a reason to skip, nothing else is.
sanitize() {
  local tool=$1 log=$logs/$1.log start=$SECONDS rc=0 refused limit
  shift
  if [ -n "$emulated" ]; then
    skip_row "$tool" "compute-sanitizer is for a GPU"
    return
  elif ! command -v compute-sanitizer >/dev/null; then
    skip_row "$tool" "no compute-sanitizer"
    return
  fi
  fits "$tool" || return 0
  timeout -k 10 "$limit" compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$log" 2>&1 || rc=$?
  refused=$(grep -iE -m 1 'device not supported|failed to initialize|not supported on' "$log" || true)
  if [ "$rc" = 0 ]; then
    row "$tool" passed 1 0 0 $((SECONDS - start)) ''
  elif [ -n "$refused" ]; then
    skip_row "$tool" "compute-sanitizer does not run here: $refused"
  else
    row "$tool" FAILED 0 1 0 $((SECONDS - start)) "$(status_text "$rc" "$limit"): $(grep -E -m 1 '^=+ [A-Z]' "$log" || tail -n 1 "$log")"
  fi
}

device='host emulator' arch=native # the emulator has none
if [ -z "$emulated" ]; then
  command -v nvidia-smi >/dev/null || die "no GPU here (no nvidia-smi); --emulated needs none"
  device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
  arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  case $arch in '' | *[!0-9]*) die "nvidia-smi names no compute capability: $arch" ;; esac
  if [ "$arch" = 90 ]; then arch=90a; fi
  arch=$arch-real
fi
echo "device: $device"
echo "logs: $logs"
few=()
[ -z "$emulated" ] || few=(--few)

# What a build needs and this machine has not.
lacking() {
  local tool
  for tool in cmake cc c++; do command -v "$tool" >/dev/null || echo "$tool"; done
  command -v ninja >/dev/null || command -v make >/dev/null || echo "ninja or make"
  [ -n "$emulated" ] || command -v nvcc >/dev/null || echo "nvcc (the CUDA toolkit 12.4 or newer)"
}

# A bundle's programs, if they start here, save the build's time.
ready=$root/gpu-data/bin
if [ -z "$bin$emulated$wants_build" ] && [ -x "$ready/bench_gpu" ]; then
  if said=$("$ready/bench_gpu" --list 2>&1 >/dev/null); then
    bin=$ready
    skip_row prebuilt "programs of the bundle (--build DIR builds others)"
  else
    echo "the bundle's programs do not start here: $said"
  fi
fi
if [ -z "$bin" ]; then
  lacks=$(lacking | paste -sd, | sed 's/,/, /g')
  [ -z "$lacks" ] || die "this machine lacks $lacks; a bundle made with --prebuilt needs none of that"
  step build configure_and_build "$arch" || {
    tail -n 30 "$logs/build.log" || true
    die "the build failed (log: $logs/build.log)"
  }
  bin=$build/bin
fi
for p in "${programs[@]}"; do [ -x "$bin/$p" ] || die "no program $p in $bin"; done
ops=$bin/gpu_ops$emulated model=$bin/gpu_model$emulated
models=(--models "$root/tests/golden/models")
[ -z "$stories" ] || models+=(--stories "$stories")

# Two ranks of mpirun on the device, their sums through host memory.
mpi_row() {
  local flags=()
  if ! command -v mpirun >/dev/null; then
    skip_row mpi "no mpirun here; forked processes did the same (ranks)"
    return
  fi
  if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then flags=(--allow-run-as-root --oversubscribe); fi
  suite mpi mpirun "${flags[@]}" -np 2 "$model" "${models[@]}" --ranks mpi
}

suite rank "$bin/gpu_rank$emulated" "${models[@]:0:2}" "${few[@]}"
suite ops "$ops" "${few[@]}"
suite same-bytes "$model" "${models[@]}" --only same "${few[@]}"
suite golden "$model" "${models[@]}" --only golden "${few[@]}"

figures='' rows_figures='' tiny=()
[ -z "$emulated" ] || tiny=(--tiny)
if [ -z "$bench" ]; then
  skip_row bench "--no-bench"
  skip_row bench-rows "--no-bench"
else
  if step bench "$bin/bench_gpu$emulated" "${tiny[@]}" --json "$logs/bench.json"; then
    figures=$logs/bench.json
    if [ -z "$emulated" ]; then cat "$logs/bench.log"; fi
  fi
  if step bench-rows "$bin/bench_gpu$emulated" "${tiny[@]}" --rows --predicted "$root/tests/gpu/predicted_rows.txt" \
    --json "$logs/bench-rows.json"; then
    rows_figures=$logs/bench-rows.json
    if [ -z "$emulated" ]; then cat "$logs/bench-rows.log"; fi
  fi
fi

suite ranks "$model" "${models[@]}" --only ranks
suite stories "$model" "${models[@]}" --only stories "${few[@]}"
if [ -z "$bench" ]; then
  skip_row bench-linear "--no-bench"
else
  if step bench-linear "$bin/bench_linear$emulated" "${tiny[@]}" && [ -z "$emulated" ]; then
    cat "$logs/bench-linear.log"
  fi
fi
mpi_row

peer=''
if [ -z "$bench" ]; then
  skip_row peer "--no-bench"
elif [ -n "$emulated" ]; then
  skip_row peer "the peer needs a GPU"
elif ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>"$logs/torch.log"; then
  skip_row peer "no torch with CUDA: $(tail -n 1 "$logs/torch.log")"
elif step peer-itself python3 "$root/tests/gpu/peer_torch.py" --tiny &&
  step peer python3 "$root/tests/gpu/peer_torch.py" --json "$logs/peer.json"; then
  peer=$logs/peer.json
  cat "$logs/peer.log"
fi

for tool in memcheck racecheck synccheck; do
  sanitize "$tool" "$model" "${models[@]}" --only golden --few
done
# Through sockets on this host: milliseconds a sum.
suite nccl env NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=2 "$model" "${models[@]}" \
  --only nccl

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
  printf '\n], "bench": %s, "bench_rows": %s, "peer": %s}\n' "$([ -n "$figures" ] && cat "$figures" || echo null)" \
    "$([ -n "$rows_figures" ] && cat "$rows_figures" || echo null)" \
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
    skipped | 'not run') suffix=" # SKIP ${notes[i]}" ;;
    *) suffix=": ${passes[i]} passed" ;;
    esac
    echo "$prefix $((i + 1)) - gpu check: ${names[i]}$suffix"
  done >"$INGOT_TAP"
  echo "1..${#names[@]}" >>"$INGOT_TAP"
fi
failed=$(sum "${fails[@]}")
for i in "${!names[@]}"; do
  if [ "${verdicts[i]}" = FAILED ]; then echo "FAILED ${names[i]}: ${notes[i]}"; fi
done
echo "logs: $logs"
echo "$(sum "${passes[@]}") passed, $failed failed, $(sum "${skips[@]}") skipped"
[ "$failed" = 0 ]
