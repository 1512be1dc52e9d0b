# Completion of Ingot's programs for bash.  The programs themselves name their commands and options (--help=options:
# lines of NAME, KIND, VALUE and TEXT with tabs between), so that this file knows none.

# The words that begin with the last one typed; file names if there are none (complete -o default).
_ingot_offer() { # WORDS BEGINNING
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_ingot() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} program=("${COMP_WORDS[0]}")
  local option='' names='' name kind value
  COMPREPLY=()
  if [ "${program[0]##*/}" = ingot ]; then
    if [ "$COMP_CWORD" = 1 ] || [ "${COMP_WORDS[1]}" = help ]; then
      names=$("${program[0]}" --help=options 2>/dev/null | cut -f1)
      _ingot_offer "$names --help --version" "$cur"
      return
    fi
    program+=("${COMP_WORDS[1]}")
  fi

  # The option whose value is being written: "--tp 2" or "--tp=2", of which readline makes three words.
  if [ "$prev" = = ]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  elif [ "$cur" = = ]; then
    option=$prev cur=''
  elif [[ $prev == --* ]]; then
    option=$prev
  fi
  while IFS=$'\t' read -r name kind value _; do # a flag has no VALUE, and two tabs count as one
    if [ "--$name" = "$option" ] && [ "$kind" = choice ]; then
      _ingot_offer "${value//|/ }" "$cur"
      return
    fi
    [ "--$name" != "$option" ] || [ "$kind" != value ] || return
    names+=" --$name"
    [ "$kind" != on ] || names+=" --no-$name"
  done < <("${program[@]}" --help=options 2>/dev/null)
  if [[ $cur == -* ]]; then
    _ingot_offer "$names" "$cur"
    return
  fi
  case ${program[1]:-} in
  serve | run | chat | inspect | quantize | tokenize | detokenize | template)
    _ingot_offer "demo-model $("${program[0]}" models list --names 2>/dev/null)" "$cur"
    ;;
  esac
}
complete -o default -F _ingot ingot ingot-coordinator ingot-worker ingot-gateway ingot-quantize ingot-journal
