#!/usr/bin/env bash
# From a fresh Debian, Ubuntu or macOS with Homebrew to an answer: installs packages, builds, starts a coordinator and two CPU ranks
# on the demo model, sends a chat request and streams the answer.  Nothing is left running.
#   deploy/quickstart.sh [--keep] [--no-packages] [QUESTION]
#   --keep          leave the server running, and say how to stop it
#   --no-packages   do not install anything
set -euo pipefail
cd "$(dirname "$0")/.."

keep=0 packages=1 question="What is Ingot?"
for arg in "$@"; do
  case "$arg" in
  --keep) keep=1 ;;
  --no-packages) packages=0 ;;
  -h | --help)
    sed -n '2,6s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  -*)
    echo "quickstart.sh: unknown option $arg (see --help)" >&2
    exit 2
    ;;
  *) question=$arg ;;
  esac
done

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi
say() { printf '%s== %s%s\n' "$bold" "$*" "$plain"; }
fail() {
  echo "quickstart.sh: $*" >&2
  exit 1
}

say "1/4 packages"
if [ "$packages" = 1 ] && { command -v apt-get || command -v brew; } >/dev/null; then
  ./deploy/install-packages.sh
elif [ "$packages" = 1 ]; then
  ./deploy/install-packages.sh || echo "going on with what is there"
else
  echo "packages: left as they are"
fi

say "2/4 build"
log=build/quickstart-build.log
mkdir -p build
started=$SECONDS
options=()
if [ ! -e build/release/CMakeCache.txt ]; then # a build folder that is there keeps its options
  if command -v ninja >/dev/null; then options+=(-G Ninja); fi
  nvidia-smi -L >/dev/null 2>&1 || options+=(-DINGOT_CUDA=OFF) # kernels take minutes to build and nothing here would run them
fi

# The build's own count ("[12/345", "[ 12%"), on one line of a terminal.
progress() {
  local line
  if [ -t 1 ]; then
    while IFS= read -r line; do
      case $line in \[*[0-9%]\]*) printf '\r   %s] ' "${line%%]*}" ;; esac
    done
    printf '\r%20s\r' ''
  else
    cat >/dev/null
  fi
}

if ! cmake --preset release ${options[@]+"${options[@]}"} >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  fail "configuring failed; the whole log is $log"
fi
if ! cmake --build build/release -j "$(getconf _NPROCESSORS_ONLN)" \
  --target ingot-cli ingot-coordinator ingot-gateway ingot-worker ingot-text ingot-journal ingot-quantize 2>&1 | tee -a "$log" | progress; then
  grep -E 'error|Error|FAILED' "$log" | head -n 20 >&2
  fail "the build failed; the whole log is $log"
fi
echo "built in $((SECONDS - started)) s: build/release/bin"

ranks=2
grep -q '^INGOT_MPI:BOOL=ON' build/release/CMakeCache.txt && command -v mpirun >/dev/null || ranks=1
say "3/4 a coordinator and $ranks rank$([ $ranks = 1 ] || echo s) on deploy/demo-model"
ingot=build/release/bin/ingot
run=$(mktemp -d "${TMPDIR:-/tmp}/ingot-quickstart-XXXXXX")
serve_log=build/quickstart-serve.log
if [ "$keep" = 1 ]; then
  endpoint=tcp://127.0.0.1:5555
  http=127.0.0.1:8080
  journal=()
else
  endpoint=ipc://$run/clients
  http=127.0.0.1:0 # any free port
  journal=(--journal "$run/journal") # goes with the server
fi

serve_pid=
clean_up() {
  trap - EXIT INT TERM
  if [ -n "$serve_pid" ]; then
    kill -TERM "$serve_pid" 2>/dev/null || true
    wait "$serve_pid" 2>/dev/null || true
  fi
  rm -rf "$run"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# a process group of its own when it stays, so that Ctrl-C on this terminal does not end it
detach=()
if [ "$keep" = 1 ] && command -v setsid >/dev/null; then detach=(setsid); fi
${detach[@]+"${detach[@]}"} "$ingot" serve deploy/demo-model --tp "$ranks" --listen "$endpoint" --http "$http" \
  ${journal[@]+"${journal[@]}"} </dev/null >"$serve_log" 2>&1 &
serve_pid=$!
for _ in $(seq 600); do
  grep -q '^Ready' "$serve_log" && break
  kill -0 "$serve_pid" 2>/dev/null || break
  sleep 0.1
done
if ! grep -q '^Ready' "$serve_log"; then
  cat "$serve_log" >&2
  fail "the server did not get ready"
fi
printf '%s' "$dim"
sed 's/^/   /' "$serve_log"
printf '%s' "$plain"

say "4/4 a chat request"
printf '> %s\n' "$question"
"$ingot" generate --connect "$endpoint" --message "$question" --temperature 0 --max-tokens 200

url=$(sed -n 's@^HTTP at \([^ ]*\).*@\1@p' "$serve_log")
if [ -n "$url" ] && command -v curl >/dev/null; then
  echo
  say "the same API that OpenAI's clients speak"
  body='{"messages": [{"role": "user", "content": "What is Ingot?"}], "temperature": 0, "max_tokens": 60}'
  printf "> curl %s/chat/completions -d '%s'\n" "$url" "$body"
  curl -sS --retry 20 --retry-connrefused --retry-delay 1 "$url/chat/completions" -d "$body"
  echo
fi

echo
if [ "$keep" = 1 ]; then
  serve_kept=$serve_pid
  serve_pid=
  say "the server is running (process $serve_kept, log $serve_log)"
  cat <<TXT
  the next request:  $ingot generate --message 'Tell me a story about a fox.'
  a conversation:    $ingot chat
  how it is doing:   $ingot status
  stop it:           $ingot drain --wait
TXT
else
  say "done; nothing is left running.  Next:"
  cat <<TXT
  one request:       $ingot run deploy/demo-model --tp 2 --message 'Tell me a story about a fox.'
  a server:          $ingot serve deploy/demo-model --tp 2
  ask it:            $ingot generate --message 'Tell me a story about a fox.'
  a conversation:    $ingot chat
  or leave this server running: ./deploy/quickstart.sh --keep
TXT
fi
cat <<TXT
  another model:     give the path of a HuggingFace folder (config.json, tokenizer.json, *.safetensors) or of a GGUF
                     file instead of deploy/demo-model.  Or its name: ingot pull ORG/NAME downloads it.
TXT
