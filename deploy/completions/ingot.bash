# Completion of Ingot's programs for bash.  The programs themselves name their commands and options (--help=options:
# lines of NAME, KIND, VALUE and TEXT with tabs between), so that this file knows none.
_ingot() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} program=("${COMP_WORDS[0]}") table='' names='' option=''
  local name kind value text
  COMPREPLY=()
  if [ "${program[0]##*/}" = ingot ]; then
    if [ "$COMP_CWORD" = 1 ]; then
      names=$("${program[0]}" --help=options 2>/dev/null | cut -f1)
      COMPREPLY=($(compgen -W "$names --help --version" -- "$cur"))
      return
    fi
    if [ "${COMP_WORDS[1]}" = help ]; then
      COMPREPLY=($(compgen -W "$("${program[0]}" --help=options 2>/dev/null | cut -f1)" -- "$cur"))
      return
    fi
    program+=("${COMP_WORDS[1]}")
  fi
  table=$("${program[@]}" --help=options 2>/dev/null) || return

  # The option whose value is being written: "--tp 2" or "--tp=2", of which readline makes three words.
  if [ "$prev" = = ]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  elif [ "$cur" = = ]; then
    option=$prev cur=''
  elif [[ $prev == --* ]]; then
    option=$prev
  fi
  while IFS=$'\t' read -r name kind value text; do
    # read takes two tabs for one
    [ "$kind" = choice ] && [ "--$name" = "$option" ] && COMPREPLY=($(compgen -W "${value//|/ }" -- "$cur")) && return
    [ "$kind" = value ] && [ "--$name" = "$option" ] && return # a file, by -o default
    names+=" --$name"
    [ "$kind" != on ] || names+=" --no-$name"
  done <<<"$table"
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$names" -- "$cur"))
  else
    case ${program[1]:-} in
    serve | run | chat | inspect | quantize)
      names=$("${program[0]}" models list --names 2>/dev/null)
      COMPREPLY=($(compgen -W "$names demo-model" -- "$cur") $(compgen -f -- "$cur"))
      ;;
    esac
  fi
}
complete -o default -F _ingot ingot ingot-coordinator ingot-worker ingot-gateway ingot-quantize ingot-journal
