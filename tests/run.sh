#!/usr/bin/env bash
# The whole suite: release build with every test, AddressSanitizer and UBSan (CUDA's kernels on the emulator too),
# ThreadSanitizer, a build without MPI, the fuzz targets over their corpora.  Ends with N passed, N failed, N skipped.
#
#   tests/run.sh            everything (about 17 minutes on two cores)
#   tests/run.sh --quick    release build only
#   tests/run.sh -R NAME    release build, tests whose name matches
set -uo pipefail
cd "$(dirname "$0")/.."

quick=0
filter=()
while [ $# -gt 0 ]; do
  case "$1" in
  --quick) quick=1 ;;
  -R)
    quick=1
    filter=(-R "${2:?-R needs a name}")
    shift
    ;;
  -h | --help)
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *)
    echo "tests/run.sh: unknown option $1 (see --help)" >&2
    exit 2
    ;;
  esac
  shift
done

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' red=$'\e[31m' plain=$'\e[0m'; else bold='' red='' plain=''; fi
jobs=$(nproc)
generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
passed=0 failed=0 skipped=0
reasons=$(mktemp) failures=$(mktemp)
trap 'rm -f "$reasons" "$failures"' EXIT

for tool in cmake cc protoc-c pkg-config; do
  if ! command -v "$tool" >/dev/null; then
    echo "tests/run.sh: $tool is not installed; ./deploy/install-packages.sh installs what is needed" >&2
    exit 2
  fi
done

count_tap() { # CONFIG: adds up build/CONFIG/results/*.tap
  local tap line
  for tap in "build/$1"/results/*.tap; do
    [ -e "$tap" ] || continue
    while IFS= read -r line; do
      case "$line" in
      "not ok"*)
        failed=$((failed + 1))
        echo "$1: ${line#not ok - }" >>"$failures"
        ;;
      "ok"*"# SKIP"*)
        skipped=$((skipped + 1))
        printf '%s: %s\n' "$1" "${line#ok - }" | sed 's/ *# SKIP */: /' >>"$reasons"
        ;;
      "ok"*) passed=$((passed + 1)) ;;
      esac
    done <"$tap"
  done
}

# Programs that ended badly without a failed case in their TAP (crash at start, time limit) count as one.
count_programs() { # CONFIG
  local log="build/$1/Testing/Temporary/LastTestsFailed.log" name
  [ -e "$log" ] || return 0
  while IFS=: read -r _ name; do
    grep -qs '^not ok' "build/$1/results/$name.tap" && continue
    failed=$((failed + 1))
    echo "$1: $name (the program crashed or ran out of time)" >>"$failures"
  done <"$log"
}

# Script tests without TAP of their own count as one case.
count_scripts() { # CONFIG LOG
  local name
  sed -nE 's|^ *[0-9]+/[0-9]+ Test +#[0-9]+: ([^ ]+) \.+ +Passed.*|\1|p' "$2" | while read -r name; do
    [ -e "build/$1/results/$name.tap" ] || echo "$name"
  done
}

run_config() { # CONFIG TARGET CTEST-ARGS...
  local config=$1 target=$2 log cuda=(-DINGOT_CUDA=OFF)
  shift 2
  [ "$config" != release ] || cuda=(-DINGOT_CUDA=AUTO -DINGOT_CUDA_ARCHS=90a-real) # one architecture: quick, and all code is seen
  echo "${bold}== $config${plain}"
  log="build/$config.log"
  mkdir -p build
  if ! cmake --preset "$config" "${generator[@]}" -DINGOT_WERROR=ON "${cuda[@]}" >"$log" 2>&1 ||
    ! cmake --build "build/$config" -j "$jobs" --target "$target" >>"$log" 2>&1; then
    grep -E 'error|Error|FAILED' "$log" | head -20
    echo "the $config build failed; the whole log is $log"
    failed=$((failed + 1))
    echo "$config: the build" >>"$failures"
    return
  fi
  export LSAN_OPTIONS="suppressions=$PWD/tests/coll/lsan.supp:print_suppressions=0" ASAN_OPTIONS=fast_unwind_on_malloc=0
  rm -f "build/$config"/results/*.tap "build/$config/Testing/Temporary/LastTestsFailed.log"
  (cd "build/$config" && ctest -j "$jobs" --output-on-failure "$@") 2>&1 | tee "build/$config.ctest.log"
  count_tap "$config"
  count_programs "$config"
  passed=$((passed + $(count_scripts "$config" "build/$config.ctest.log" | wc -l)))
}

run_fuzz() {
  echo "${bold}== fuzz targets over their corpora${plain}"
  if ! command -v clang >/dev/null || ! echo 'int LLVMFuzzerTestOneInput(const char*d,long n){(void)d;(void)n;return 0;}' |
    clang -x c - -fsanitize=fuzzer,address -o /dev/null 2>/dev/null; then
    skipped=$((skipped + 1))
    echo "fuzz: needs clang with libFuzzer (apt: clang)" >>"$reasons"
    return
  fi
  if ! CC=clang cmake -S . -B build/fuzz "${generator[@]}" -DINGOT_FUZZ=ON -DINGOT_TESTS=OFF -DINGOT_MPI=OFF \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo >build/fuzz.log 2>&1 ||
    ! cmake --build build/fuzz -j "$jobs" --target fuzzers >>build/fuzz.log 2>&1; then
    grep -E 'error|FAILED' build/fuzz.log | head
    failed=$((failed + 1))
    echo "fuzz: the build" >>"$failures"
    return
  fi
  local target name out
  for target in build/fuzz/bin/fuzz_*; do
    name=$(basename "$target")
    out=$(mktemp -d)
    if "$target" -max_total_time="${INGOT_FUZZ_SECONDS:-5}" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$out/" \
      "$out" tests/fuzz/corpus/"${name#fuzz_}" >"build/$name.log" 2>&1; then
      passed=$((passed + 1))
      echo "   $name: $(grep -oE 'Done [0-9]+ runs' "build/$name.log" | tail -1)"
    else
      failed=$((failed + 1))
      echo "fuzz: $name" >>"$failures"
      tail -20 "build/$name.log"
    fi
    rm -rf "$out"
  done
}

check_format() {
  local version bad
  version=$(clang-format --version 2>/dev/null | grep -oE 'version [0-9]+' | grep -oE '[0-9]+')
  if [ "$version" != 14 ]; then
    skipped=$((skipped + 1))
    echo "format: needs clang-format 14 (others break lines differently)" >>"$reasons"
    return
  fi
  bad=$(find backends client collectives common coordinator tests worker -name '*.[ch]' -print0 |
    xargs -0 -n 40 -P "$jobs" clang-format --dry-run 2>&1 | grep -oE '^[^:]+' | sort -u)
  if [ -n "$bad" ]; then
    failed=$((failed + 1))
    echo "$bad" | sed 's/^/   not formatted: /'
    echo "format: run clang-format -i" >>"$failures"
  else
    passed=$((passed + 1))
  fi
}

[ "$quick" = 1 ] || check_format
run_config release all "${filter[@]}"
if [ "$quick" = 0 ]; then
  run_config san all -L 'unit|text|coll|ops|nompi|emulator'
  run_config tsan tests_tsan -L tsan
  run_config nompi tests_nompi -L nompi
  run_fuzz
fi

if [ -s "$reasons" ]; then
  echo
  echo "${bold}Skipped, and why${plain}"
  sort "$reasons" | sed 's/^/   /'
fi
if [ -s "$failures" ]; then
  echo
  echo "${bold}${red}Failed${plain}"
  sed 's/^/   /' "$failures"
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
