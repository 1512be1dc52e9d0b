#!/usr/bin/env bash
# The text commands as a user meets them: outputs, errors, exit codes.
#   text_commands.sh INGOT_TEXT SOURCE_DIR
set -u
text=$1 data=$2/tests/data/chat
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 passed=0
tap=${INGOT_TAP:-/dev/null}
: >"$tap"

# check NAME WANTED_CODE WANTED_OUT WANTED_ERR COMMAND...: exact output (unless "-"), a part of the errors (""
# is none at all)
check() {
  local name=$1 code=$2 out=$3 err=$4
  shift 4
  "$@" >"$work/out" 2>"$work/err" </dev/null
  local got=$?
  if [ "$got" != "$code" ]; then
    echo "FAIL $name: exit code $got, not $code: $(head -c 300 "$work/err")"
  elif [ "$out" != - ] && ! printf '%s' "$out" | cmp -s - "$work/out"; then
    echo "FAIL $name: output is: $(head -c 300 "$work/out")"
  elif { [ -n "$err" ] && ! grep -qF -- "$err" "$work/err"; } || { [ -z "$err" ] && [ -s "$work/err" ]; }; then
    echo "FAIL $name: errors are: $(head -c 300 "$work/err")"
  else
    passed=$((passed + 1))
    echo "ok - text_commands: $name" >>"$tap"
    return
  fi
  bad "$name"
}
bad() {
  failed=$((failed + 1))
  echo "not ok - text_commands: $1" >>"$tap"
}

echo '[{"role": "user", "content": "Hi"}]' >"$work/hi.json"
echo '[{"role": "assistant", "content": "Hi"}]' >"$work/wrong.json"
echo '{"bos_token": "<s>", "eos_token": "</s>"}' >"$work/variables.json"
echo '{"a": 1' >"$work/broken.json"
echo 'x {{ messages[0].nothing.more }}' >"$work/fails.jinja"
echo '{% for x in %}' >"$work/syntax.jinja"

check "no command" 2 "" "Usage: ingot-text" "$text"
check "unknown command" 2 "" "unknown command 'sing'" "$text" sing
check "help" 0 - "" "$text" --help
for command in tokenize detokenize template; do
  check "$command --help" 0 - "" "$text" "$command" --help
  grep -q "Exit codes" "$work/out" || { echo "FAIL $command --help says no exit codes"; bad "$command --help"; }
done
check "unknown option" 2 "" "--mesages" "$text" template --mesages x
check "no messages" 2 "" "messages" "$text" template --template "$data/chatml.jinja"
check "no template" 2 "" "either MODEL or --template" "$text" template --messages "$work/hi.json"
check "two models" 2 "" "one of MODEL, --tokenizer" "$text" tokenize a --tokenizer b --text c
check "no text" 2 "" "either --text or --text-file" "$text" tokenize a
check "no such model" 1 "" "nowhere" "$text" tokenize "$work/nowhere" --text x
check "no such messages" 1 "" "nothing.json" "$text" template --template "$data/chatml.jinja" \
  --messages "$work/nothing.json"

prompt=$'<|im_start|>system\nYou answer briefly.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n'
check "template" 0 "$prompt"$'<|im_start|>assistant\n' "" "$text" template --template "$data/chatml.jinja" \
  --messages "$work/hi.json" --raw
check "no generation prompt" 0 "$prompt" "" "$text" template --template "$data/chatml.jinja" \
  --messages "$work/hi.json" --no-generation-prompt
check "variables" 0 "<s>[INST] Hi [/INST]" "" "$text" template --template "$data/mistral_like.jinja" \
  --messages "$work/hi.json" --variables "$work/variables.json" --raw
check "a newline ends what is not raw" 0 "<s>[INST] Hi [/INST]"$'\n' "" "$text" template \
  --template "$data/mistral_like.jinja" --messages "$work/hi.json" --variables "$work/variables.json"
check "continue" 0 "${prompt%'<|im_end|>'$'\n'}" "" "$text" template --template "$data/chatml.jinja" \
  --messages "$work/hi.json" --continue-final-message --raw
check "a refusal" 3 "" "The conversation must begin with a user message" "$text" template \
  --template "$data/mistral_like.jinja" --messages "$work/wrong.json" --variables "$work/variables.json"
check "a template that fails" 4 "" "chat template line 1" "$text" template --template "$work/fails.jinja" \
  --messages "$work/hi.json"
check "a template that is wrong" 1 "" "chat template line 1" "$text" template --template "$work/syntax.jinja" \
  --messages "$work/hi.json"
check "messages that are no JSON" 1 "" "messages: " "$text" template --template "$data/chatml.jinja" \
  --messages "$work/broken.json"
check "messages that are no list" 1 "" "not a list" "$text" template --template "$data/chatml.jinja" \
  --messages "$work/variables.json"

model=${INGOT_DATA:-$2/../shared/data}/models/stories260K
if [ -r "$model/tokenizer.json" ]; then
  check "tokenize" 0 $'1 403 407 261 378\n' "" "$text" tokenize "$model" --text "Once upon a time"
  check "tokenize a GGUF" 0 $'1 403 407 261 378\n' "" "$text" tokenize "$model/model.gguf" --text "Once upon a time"
  mkdir "$work/mixed" && cp "$model/config.json" "$model/model.gguf" "$work/mixed"
  check "the tokenizer of a GGUF beside config.json" 0 $'1 403\n' "no tokenizer.json: the tokenizer of $work/mixed/model.gguf" \
    "$text" tokenize "$work/mixed" --text "Once"
  check "no special" 0 $'403 407\n' "" "$text" tokenize --tokenizer "$model/tokenizer.json" --text "Once upon" \
    --no-special
  check "json" 0 $'{"ids": [1, 403, 407], "count": 3}\n' "" "$text" tokenize "$model" --text "Once upon" --json
  check "explain" 0 - "" "$text" tokenize "$model" --text "Once upon" --explain
  grep -q "template" "$work/out" && grep -q "4-9" "$work/out" ||
    { echo "FAIL explain: $(cat "$work/out")"; bad "explain"; }
  check "two BOS" 0 $'1 1 403\n' "BOS stands twice" "$text" tokenize "$model" --text "<s>Once"
  check "detokenize" 0 "<s> Once upon" "" "$text" detokenize "$model" --ids "[1, 403,407]"
  check "skip special" 0 "Once upon" "" "$text" detokenize "$model" --ids "1 403 407" --skip-special
  check "no id" 1 "" "'abc' is no token id" "$text" detokenize "$model" --ids "1 abc"
  check "an id too large" 1 "" "ids go from 0 to 511" "$text" detokenize "$model" --ids "512"
  check "a model without a template" 1 "" "no chat template 'default'" "$text" template "$model" \
    --messages "$work/hi.json"
else
  echo "ok - text_commands: tokenizers # SKIP no shared data: models/stories260K" | tee -a "$tap"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
