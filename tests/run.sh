#!/usr/bin/env bash
# The whole suite from a bare Debian or Ubuntu: packages, a Python of its own (build/venv), then the configurations: the
# release build with every test, AddressSanitizer and UBSan (CUDA's kernels on the emulator too), ThreadSanitizer, a
# build without MPI, and the fuzz targets.  Ends with "N passed, N failed, N skipped".
#
#   tests/run.sh            about 30 minutes on two cores
#   tests/run.sh --all      the same with more rounds and inputs
#   tests/run.sh --quick    release build only
#   tests/run.sh -R NAME    release build, tests whose name matches
#   --no-packages           with any of them: installs no Debian packages
set -uo pipefail
cd "$(dirname "$0")/.."

packages=1 quick='' filter=()
while [ $# -gt 0 ]; do
  case "$1" in
  --all) export INGOT_ALL=1 ;;
  --quick) quick=1 ;;
  --no-packages) packages='' ;;
  -R)
    quick=1
    filter=(-R "${2:?-R needs a name}")
    shift
    ;;
  -h | --help)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
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
jobs=$(getconf _NPROCESSORS_ONLN)
python=$PWD/build/venv/bin/python
passed=0 failed=0 skipped=0
parts=()
notes=$(mktemp -d)
trap 'rm -rf "$notes"' EXIT
touch "$notes/skipped" "$notes/failed"

say() { printf '%s== %s%s\n' "$bold" "$*" "$plain"; }
part() { parts+=("$(awk -v s=$((SECONDS - part_began)) -v name="$1" 'BEGIN { printf "%6.1f  %s", s / 60, name }')"); }
fail() { # REASON
  failed=$((failed + 1))
  echo "$1" >>"$notes/failed"
}

# What is missing although the packages were to be there, in one line.
lacking() {
  local name
  for name in cmake cc c++ pkg-config protoc protoc-c mpirun xz python3; do
    command -v "$name" >/dev/null || printf ' %s' "$name"
  done
  for name in criterion libcrypto libcurl libssl libevent_openssl libzmq libprotobuf-c libcjson libpcre2-8 libutf8proc; do
    pkg-config --exists "$name" 2>/dev/null || printf ' %s' "$name"
  done
  if [ -z "$quick" ]; then
    command -v clang >/dev/null || printf ' clang'
    echo 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return n && *p > 126; }' |
      clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null || printf ' libclang-rt'
  fi
  python3 -c 'import ensurepip, venv' 2>/dev/null || printf ' python3-venv'
}

# build/venv is made again when its requirements have changed.  --all needs more, and what it made serves all runs.
make_venv() {
  local wanted=tests/requirements.txt
  [ -z "${INGOT_ALL:-}" ] || wanted=tests/requirements-all.txt
  "$python" -c '' 2>/dev/null && cmp -s tests/requirements.txt build/venv/requirements.txt &&
    cmp -s "$wanted" "build/venv/${wanted##*/}" && return
  echo "Python packages: build/venv"
  rm -rf build/venv
  mkdir -p build
  python3 -m venv build/venv >build/venv.log 2>&1 &&
    "$python" -m pip install --disable-pip-version-check -q -r "$wanted" >>build/venv.log 2>&1 &&
    cp tests/requirements.txt build/venv/ && cp "$wanted" build/venv/
}

# Prometheus and promtool from Debian's package, unpacked and not installed: an installed one starts a service.
get_prometheus() {
  local dir=$PWD/build/prometheus
  command -v promtool >/dev/null && return
  if [ ! -x "$dir/usr/bin/promtool" ]; then
    rm -rf "$dir"
    mkdir -p "$dir"
    (cd "$dir" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb) >build/prometheus.log 2>&1 ||
      return 0 # its tests say that they need it
  fi
  export PATH=$PATH:$dir/usr/bin
}

set_up() {
  local missing
  if [ -n "$packages" ] && { command -v apt-get || command -v brew; } >/dev/null; then
    ./deploy/install-packages.sh --tests || exit 2
    ! command -v apt-get >/dev/null || get_prometheus
  fi
  missing=$(lacking)
  if [ -n "$missing" ]; then
    echo "tests/run.sh: missing:$missing (./deploy/install-packages.sh --tests installs what is needed)" >&2
    exit 2
  fi
  if ! make_venv; then
    echo "tests/run.sh: no Python packages from PyPI for build/venv: $(tail -n 1 build/venv.log)" >&2
    exit 2
  fi
}

# Adds up what CTest and the TAP files of a configuration say.  A script without TAP of its own is one case; a program
# that failed without a failed case (it crashed or ran out of time) is one too.
count() { # CONFIG CTEST-LOG
  local dir=build/$1/results name n
  sed -nE 's@^ *([0-9]+/[0-9]+)? *Test +#[0-9]+: ([^ ]+) \.*( +Passed|\*\*\*(Not Run|[A-Za-z]+)).*@\2 \4@p' "$2" |
    awk '$1 in how { print "   run again after a timeout: " $1 >"/dev/stderr" }
      { if (!($1 in how)) name[++n] = $1; how[$1] = $0 }
      END { for (i = 1; i <= n; i++) print how[name[i]] }' >"$notes/programs"
  cases=0
  while read -r name how; do
    if [ -s "$dir/$name.tap" ]; then
      sed -nE "s/^not ok [0-9 ]*- */$1: /p" "$dir/$name.tap" >"$notes/bad"
      sed -nE "s/^ok [0-9 ]*- *(.*[^ ]) *# SKIP */$1: \1: /p" "$dir/$name.tap" >"$notes/left"
      n=$(grep -E '^ok ' "$dir/$name.tap" | grep -cv '# SKIP')
    else
      : >"$notes/bad" >"$notes/left"
      n=$([ -n "$how" ] && echo 0 || echo 1)
      [ "$how" != Skipped ] || echo "$1: $name: its output is in $2" >"$notes/left"
    fi
    if [ -n "$how" ] && [ "$how" != Skipped ] && [ ! -s "$notes/bad" ]; then echo "$1: $name ($how)" >"$notes/bad"; fi
    cat "$notes/bad" >>"$notes/failed"
    cat "$notes/left" >>"$notes/skipped"
    failed=$((failed + $(wc -l <"$notes/bad")))
    skipped=$((skipped + $(wc -l <"$notes/left")))
    cases=$((cases + n))
  done <"$notes/programs"
  passed=$((passed + cases))
}

# A configuration that lost its tests must not pass.  tests/minimum.txt: CONFIG, cases with shared data, cases without.
enough() { # CONFIG CASES
  local least
  least=$(awk -v config="$1" -v column=$([ -d "$data" ] && echo 2 || echo 3) '$1 == config { print $column }' tests/minimum.txt)
  echo "$1: $2 cases passed, at least ${least:-1} are expected"
  [ "$2" -ge "${least:-1}" ] || fail "$1: only $2 cases passed, at least $least are expected (tests/minimum.txt)"
}

build() { # CONFIG TARGET CMAKE-ARGUMENT...
  local config=$1 target=$2 log=build/$1.log part_began=$SECONDS generator=()
  shift 2
  say "$config"
  if [ ! -e "build/$config/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
  if cmake -B "build/$config" ${generator[@]+"${generator[@]}"} -DINGOT_WERROR=ON -DINGOT_PYTHON="$python" "$@" >"$log" 2>&1 &&
    cmake --build "build/$config" -j "$jobs" --target "$target" >>"$log" 2>&1; then
    part "$config: build"
    return 0
  fi
  grep -E 'error|Error|FAILED' "$log" | head -n 20
  echo "the $config build failed; the whole log is $log"
  fail "$config: the build"
  return 1
}

run_config() { # CONFIG TARGET CTEST-ARGUMENT...
  local config=$1 target=$2 log=build/$1.ctest.log cuda=(-DINGOT_CUDA=OFF) cases part_began
  shift 2
  [ "$config" != release ] || cuda=(-DINGOT_CUDA=AUTO -DINGOT_CUDA_ARCHS=90a-real) # one architecture: quick, and all code is seen
  build "$config" "$target" --preset "$config" "${cuda[@]}" || return
  part_began=$SECONDS
  rm -rf "build/$config/results"
  mkdir "build/$config/results"
  # gcc's AddressSanitizer before 14 does not lock its allocator over a fork: where Criterion's other thread allocates while
  # a case's process is forked, that process waits for ever (seen once).  What hangs by itself runs out of time twice.
  [ "$config" != san ] || set -- "$@" --repeat after-timeout:2
  ctest --test-dir "build/$config" --no-tests=error -j "$jobs" --output-on-failure "$@" 2>&1 | tee "$log"
  if [ "${PIPESTATUS[0]}" != 0 ] && ! grep -q 'tests failed out of' "$log"; then fail "$config: no tests were run"; fi
  count "$config" "$log"
  [ ${#filter[@]} != 0 ] || enough "$config" "$cases"
  part "$config: tests"
}

# fuzz_one PROGRAM: its corpus, then inputs made of it.
fuzz_one() {
  local name runs=20000
  name=$(basename "$1")
  case $name in # each is a long run of its own
  fuzz_sched) runs=4000 ;;
  fuzz_fleet) runs=1000 ;;
  esac
  [ -z "${INGOT_ALL:-}" ] || runs=$((50 * runs))
  mkdir "$notes/$name"
  if "$1" -runs=$runs -seed=1 -timeout=600 -rss_limit_mb=2048 -artifact_prefix="$notes/" "$notes/$name" \
    "tests/fuzz/corpus/${name#fuzz_}" >"build/$name.log" 2>&1; then
    echo "   $name: $(grep -oE 'Done [0-9]+ runs' "build/$name.log" | tail -n 1)"
    echo "$name" >>"$notes/fuzzed"
  else
    tail -n 20 "build/$name.log"
    echo "fuzz: $name" >>"$notes/failed"
  fi
}

run_fuzz() {
  local target part_began
  CC=clang build fuzz fuzzers -S . -DINGOT_FUZZ=ON -DINGOT_TESTS=OFF -DINGOT_MPI=OFF -DINGOT_CUDA=OFF \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo || return
  part_began=$SECONDS
  : >"$notes/fuzzed"
  for target in build/fuzz/bin/fuzz_*; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    fuzz_one "$target" &
  done
  wait
  failed=$((failed + $(grep -c '^fuzz: fuzz_' "$notes/failed")))
  passed=$((passed + $(wc -l <"$notes/fuzzed")))
  enough fuzz "$(wc -l <"$notes/fuzzed")"
  part "fuzz: runs"
}

check_format() {
  local part_began=$SECONDS bad
  say "format"
  bad=$(find backends client collectives common coordinator tests worker -name '*.[ch]' -print0 |
    xargs -0 -n 40 -P "$jobs" build/venv/bin/clang-format --dry-run 2>&1 | grep -oE '^[^: ]+\.[ch]:' | sort -u)
  if [ -n "$bad" ]; then
    echo "$bad" | sed 's/^/   not formatted: /'
    fail "format: run clang-format -i"
  else
    passed=$((passed + 1))
  fi
  part "format"
}

part_began=$SECONDS
set_up
part "packages"
# Configurations share the objects that are the same in both, wherever the folders are.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export LSAN_OPTIONS="suppressions=$PWD/tests/coll/lsan.supp:print_suppressions=0" ASAN_OPTIONS=fast_unwind_on_malloc=0:malloc_context_size=10
data=${INGOT_DATA:-../shared/data}

[ -n "$quick" ] || check_format
run_config release all ${filter[@]+"${filter[@]}"}
if [ -z "$quick" ]; then
  run_config san tests_san -L "unit|text|coll|ops|nompi|emulator${INGOT_ALL:+|sanitized}"
  run_config tsan tests_tsan -L tsan
  run_config nompi tests_nompi -L nompi
  run_fuzz
fi

if [ -s "$notes/skipped" ]; then
  echo
  say "Skipped, and why"
  [ -d "$data" ] || echo "   there is no shared data ($data): comparisons with it are left out"
  sort "$notes/skipped" | sed 's/^/   /'
fi
if [ -s "$notes/failed" ]; then
  echo
  say "${red}Failed"
  sed 's/^/   /' "$notes/failed"
fi
echo
say "Minutes"
part_began=0
part "all"
printf '%s\n' "${parts[@]}"
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
