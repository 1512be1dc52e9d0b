# shellcheck shell=bash disable=SC2154 # dir, asked, welcomed: of run-group.sh
# Which hosts a worker group starts on.  Part of run-group.sh, which reads it.
#
# The options --host and --hostfile may name more hosts than -np needs.  Before each start all of them are asked to run `true`
# through the program that mpirun uses for its logins.  The first ones that answer and have enough slots are taken, the
# others are left out.  Without -np all hosts are needed.  With --map-by node and the like mpirun spreads the ranks over
# all hosts that answer.  When a group that has served is lost, those that answer are taken at once.
PROBE_S=${INGOT_PROBE_S:-5} # a host that has not answered by then is left out
LOSS_MS=700                 # the same, in milliseconds, if others suffice for a group that has served
probes=() asked_ms=0        # when they began
names=() slots=() # slots: "" if the line of the file has none
ranks='' each=''  # -np; ranks of a host where an option says so
spread=''         # mpirun does not fill one host after another
listed='' filed='' taken='' others=() agent=${OMPI_MCA_plm_rsh_agent:-} said=''

add_host() {
  names+=("$1")
  slots+=("$2")
}

# Reads w1,w2:4 as mpirun does.
read_host_list() {
  local entry list
  IFS=, read -ra list <<<"$1"
  for entry in "${list[@]}"; do
    case $entry in
    *:*) add_host "${entry%%:*}" "${entry#*:}" ;;
    *) add_host "$entry" 1 ;;
    esac
  done
}

read_hostfile() {
  local line words
  [ -r "$1" ] || {
    echo "run-group.sh: cannot read the hostfile $1" >&2
    exit 2
  }
  while IFS= read -r line || [ -n "$line" ]; do
    read -ra words <<<"${line%%#*}"
    [ ${#words[@]} != 0 ] || continue
    if [[ $line =~ [[:space:]](slots|cpus|count)[[:space:]]*=[[:space:]]*([0-9]+) ]]; then
      add_host "${words[0]}" "${BASH_REMATCH[2]}"
    else
      add_host "${words[0]}" ''
    fi
  done <"$1"
}

# Reads the options of mpirun; others=() gets those that do not name hosts.
read_mpirun_options() {
  while [ $# -gt 0 ]; do
    case "$1" in
    -H | -host | --host)
      listed=1
      read_host_list "${2:-}"
      shift
      ;;
    -hostfile | --hostfile | -machinefile | --machinefile)
      filed=1
      read_hostfile "${2:-}"
      shift
      ;;
    -mca | --mca)
      [ "${2:-}" != plm_rsh_agent ] || agent=${3:-}
      others+=("$1" "${@:2:2}")
      shift $(($# < 3 ? $# - 1 : 2))
      ;;
    *)
      others+=("$1")
      note_option "$1" "${2:-}"
      ;;
    esac
    [ $# = 0 ] || shift
  done
  agent=${agent%% : *} # the first of several
  [ "$(total_slots)" -ge "${ranks:-0}" ] || ranks='' # mpirun says what it thinks of that
}

note_option() {
  case $1 in
  -np | --np | -n | --n | -c) ranks=$2 ;;
  -N | -npernode | --npernode) each=$2 ;;
  -pernode | --pernode) each=1 ;;
  -map-by | --map-by)
    case $2 in
    ppr:*:node*) each=${2#ppr:} each=${each%%:*} ;;
    slot*) ;;
    *) spread=1 ;;
    esac
    ;;
  esac
}

# The slots of all hosts; as many as are asked for if only mpirun knows them.
total_slots() {
  local n total=0
  for n in "${slots[@]}"; do
    n=${each:-$n}
    [ -n "$n" ] || total=$((total + ${ranks:-0}))
    total=$((total + ${n:-0}))
  done
  echo $total
}

# Otherwise mpirun gets the options as they are: there are no hosts (Slurm names them), or a list filters a file.
chooses_hosts() {
  [ ${#names[@]} != 0 ] && { [ -z "$listed" ] || [ -z "$filed" ]; }
}

# Does mpirun start all ranks here?
on_this_host() {
  [ ${#names[@]} = 0 ] && [[ ! " ${others[*]} " =~ \ --?(default-hostfile|app|rankfile|rf)\  ]] &&
    [ -z "${SLURM_JOB_ID:-}${PBS_JOBID:-}${LSB_JOBID:-}${PE_HOSTFILE:-}${OMPI_MCA_orte_default_hostfile:-}" ] &&
    ! grep -qs '^[[:space:]]*[^#[:space:]]' /etc/openmpi/openmpi-default-hostfile
}

# More than -np needs?
has_spares() {
  chooses_hosts && [ -n "$ranks" ] && [ "$(total_slots)" -gt "$ranks" ]
}

# The login program's command, for probe and unreached_ports.
set_login() {
  read -ra login_command <<<"${agent:-ssh -o BatchMode=yes -o ConnectTimeout=$PROBE_S}"
}

# mpirun needs no login here.
is_this_host() {
  local name=${1#*@} own address
  case $name in
  localhost | 127.* | "$HOSTNAME" | "${HOSTNAME%%.*}") return 0 ;;
  esac
  own=" $(hostname -I 2>/dev/null) "
  for address in "$name" $(timeout 2 getent ahosts "$name" 2>/dev/null | cut -d ' ' -f 1); do
    [[ $own != *" $address "* ]] || return 0
  done
  return 1
}

# Asks a host; the answer comes as the exit code in FILE.rc and what was said in FILE.  SIGTERM ends the login, too.
probe() {
  local rc=0 login_command login='' stopped=''
  trap 'stopped=1; [ -z "$login" ] || kill "$login" 2>/dev/null' TERM
  if ! is_this_host "$1"; then
    set_login
    timeout -k 1 "$PROBE_S" "${login_command[@]}" "$1" true >"$2" 2>&1 </dev/null &
    login=$!
    [ -z "$stopped" ] || kill "$login" 2>/dev/null
    wait "$login" || rc=$?
    [ -z "$stopped" ] || wait "$login" # the signal ended the first wait
  fi
  echo $rc >"$2.rc.new"
  mv "$2.rc.new" "$2.rc"
}

# The TCP ports on which mpirun waits for its daemons, one a line.
listening_ports() {
  local fd link inodes=' ' address state inode
  for fd in "/proc/$group/fd/"*; do
    link=$(readlink "$fd")
    [[ $link != socket:* ]] || inodes+="${link//[!0-9]/} "
  done
  while read -r _ address _ state _ _ _ _ _ inode _; do
    [ "$state" = 0A ] && [[ $inodes == *" $inode "* && $address != 0100007F:* ]] && echo $((16#${address#*:}))
  done <"/proc/$group/net/tcp"
}

# Asks a host whether it can connect to a port of this one; "no connection" in FILE: it cannot.
ask_back() {
  local login_command
  set_login
  timeout -k 1 $((2 * PROBE_S)) "${login_command[@]}" "$1" sh -c "'for a in $addresses; do timeout 2 bash -c \
\"exec 3<>/dev/tcp/\$a/$port\" && exit 0; done; echo no connection'" >"$2" 2>/dev/null </dev/null || echo 'no answer' >"$2"
}

# Says which of the chosen hosts cannot connect to mpirun on this host, if one cannot.
unreached_ports() {
  local i port addresses hosts='' asked_hosts=()
  read -r port < <(listening_ports) || return 0
  addresses=$(hostname -I 2>/dev/null)
  for i in $taken; do
    ! is_this_host "${names[i]}" || continue
    ask_back "${names[i]}" "$dir/reach.$i" &
    asked_hosts+=($!)
  done
  wait "${asked_hosts[@]}"
  for i in $taken; do
    [ ! -s "$dir/reach.$i" ] || hosts+=", ${names[i]} ($(tail -n 1 "$dir/reach.$i"))"
  done
  [ -z "$hosts" ] || echo "not all hosts reach port $port of this host ($HOSTNAME, ${addresses% }): ${hosts#, }: a firewall? \
Open MPI's ports must be open between all hosts, in both directions (docs/hosts.md)"
}

# Sets answers=(): "" not known yet, "yes", or why not.
read_answers() {
  local i rc
  for i in "${!names[@]}"; do
    [ -r "$dir/probe.$i.rc" ] || continue
    rc=$(<"$dir/probe.$i.rc")
    case $rc in
    0) answers[i]=yes ;;
    124) answers[i]="does not answer within $PROBE_S s" ;;
    *)
      answers[i]=$(tail -n 1 "$dir/probe.$i" | tr -d '\r')
      answers[i]=${answers[i]:-the login ended with $rc}
      ;;
    esac
  done
}

# Sets chosen=() to the indices of the hosts to take, and behind=N: those from N on are spares.  1: too few have answered.
choose_answering() {
  local i n have=0 unknown=''
  chosen=() behind=${#names[@]}
  for i in "${!names[@]}"; do
    [ "${answers[i]:-}" = yes ] || continue
    n=${each:-${slots[i]}}
    chosen+=("$i")
    have=$((have + ${n:-0}))
    [ -n "$n" ] || unknown=1
    if [ -z "$spread" ] && [ -z "$unknown" ] && [ -n "$ranks" ] && [ $have -ge "$ranks" ]; then
      behind=$((i + 1))
      return 0
    fi
  done
  if [ -z "$ranks" ]; then
    [ ${#chosen[@]} = ${#names[@]} ]
  elif [ -n "$unknown" ]; then # mpirun counts the cores of the hosts
    [ ${#chosen[@]} != 0 ]
  else
    [ $have -ge "$ranks" ]
  fi
}

# Have all hosts answered that come before the spares?
in_order() {
  local i
  for ((i = 0; i < behind; i++)); do [ -n "${answers[i]:-}" ] || return 1; done
}

# Says, when it is news, which hosts are taken and why the others are not.
say_hosts() {
  local i text='' left=''
  for i in "${!names[@]}"; do
    case " ${chosen[*]} " in
    *" $i "*) text+=" ${names[i]}" ;;
    *)
      case ${answers[i]:-} in
      '') [ "$i" -ge "$behind" ] && left+=", ${names[i]} (spare)" || left+=", ${names[i]} (no answer within $(((now - asked_ms) / 1000)).$(((now - asked_ms) / 100 % 10)) s)" ;;
      yes) left+=", ${names[i]} (spare)" ;;
      *) left+=", ${names[i]} (${answers[i]})" ;;
      esac
      ;;
    esac
  done
  text="$1${text:- none}${left:+; left out: ${left#, }}"
  [ "$text" = "$said" ] || echo "run-group.sh: $text" >&2
  said=$text
}

begin_probes() {
  local i now
  rm -f "$dir"/probe.*
  for i in "${!names[@]}"; do
    probe "${names[i]}" "$dir/probe.$i" &
    probes+=($!)
  done
  set_now
  asked_ms=$now
}

# No login is left.
end_probes() {
  [ ${#probes[@]} != 0 ] || return 0
  kill "${probes[@]}" 2>/dev/null
  wait "${probes[@]}"
  probes=()
}

# Sets host_options=() for the next start; 1: too few hosts answer, or a signal has come.
choose_hosts() {
  local i now ended='' enough='' behind=0 answers=() chosen=() more=$((PROBE_S * 1000 / 3))
  [ ${#probes[@]} != 0 ] || begin_probes
  while [ -z "$ended" ] && [ -z "$asked" ]; do
    read_answers
    set_now
    # a host that is named before those that suffice gets so much more time than these took
    if choose_answering; then
      [ -n "$enough" ] || enough=$([ -n "$welcomed" ] && echo $((asked_ms + LOSS_MS - more)) || echo "$now")
      ! in_order && [ $((now - enough)) -le "$more" ] || ended=1
    fi
    [ ${#answers[@]} != ${#names[@]} ] || ended=1
    [ -n "$ended" ] || sleep 0.05
  done
  end_probes
  [ -z "$asked" ] || return 1
  choose_answering || {
    say_hosts 'too few hosts answer:'
    return 1
  }
  say_hosts 'hosts:'
  taken=${chosen[*]}
  if [ -n "$listed" ]; then # two names of one host are allowed in a list, and not in a file
    host_options=(--host "$(for i in "${chosen[@]}"; do printf '%s:%s,' "${names[i]}" "${slots[i]}"; done)")
    host_options[1]=${host_options[1]%,}
  else
    host_options=(--hostfile "$dir/hosts")
    for i in "${chosen[@]}"; do echo "${names[i]}${slots[i]:+ slots=${slots[i]}}"; done >"$dir/hosts"
  fi
}
