#!/usr/bin/env bash
# Runs one worker group under mpirun and starts it again when it ends by a fault, or when a rank shows no sign of life for 5 s
# (it is stopped, or its host cannot be reached), or when the coordinator gives the group up.  For one host or several; systemd
# and Slurm use it too (deploy/systemd, deploy/slurm).
#   deploy/run-group.sh [options of mpirun] -- [options of ingot-worker]
#   deploy/run-group.sh -np 8 --hostfile hosts -- --model /models/m --connect tcp://head:5556
# SIGTERM and SIGINT end the group.  Open MPI's waits are shortened so that a killed rank, a stopped one and a lost host
# are noticed within seconds; an option of yours with the same name takes the place.
# --hostfile or --host may name more hosts than -np needs: the group starts on the first ones that answer a login, so a spare
# takes the place of a lost host, and a line names those that were left out.  If too few answer, it waits for them.
# Every host needs the programs and the model at the same paths, a login with keys from this host, and, where hosts have
# several networks or firewalls, --mca oob_tcp_if_include, btl_tcp_if_include and the ports (docs/hosts.md).
# A start in which no rank shows a sign of life within 60 s (INGOT_START_S) has failed: hosts that cannot connect to mpirun are named.
# Exit codes: 0 the coordinator has drained, or a signal came; 2 wrong options; 3 the model cannot be served; 5 the
# coordinator refuses this group or its key; 127 there is no mpirun; 1 the group ended ten times in a row (INGOT_TRIES)
# before it had served for ten seconds.  A group that no coordinator has answered is started again without end.
set -uo pipefail

QUICK_S=10                      # a group that has served for less has failed to start
MAX_QUICK=${INGOT_TRIES:-10}    # so often in a row
END_S=${INGOT_END_S:-2}         # mpirun gets so long to end when a rank has reported a fault: it waits for hosts that cannot be reached
GRACE_MS=300                    # the same when the coordinator has given the group up
START_S=${INGOT_START_S:-60}    # after so long without a sign of life of any rank the start has failed
SILENCE_S=${INGOT_SILENCE_S:-5} # a rank that has written no sign of life (--signs-of-life) for longer has stopped

mpi=() worker=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case "$1" in
  -h | --help)
    sed -n '2,16s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  esac
  mpi+=("$1")
  shift
done
if [ $# = 0 ]; then
  echo "run-group.sh: there is no -- before the options of ingot-worker (see --help)" >&2
  exit 2
fi
shift
worker=("$@")
here=$(cd "$(dirname "$0")" && pwd)
hosts="$here/run-group-hosts.sh"
[ -r "$hosts" ] || hosts="$here/../share/ingot/run-group-hosts.sh" # installed
# shellcheck source=/dev/null
. "$hosts" || exit 1
read_mpirun_options "${mpi[@]}"
program=$(command -v ingot-worker || echo "$here/../build/release/bin/ingot-worker")

asked='' group='' watcher='' welcomed='' segments=''
# shellcheck disable=SC2317 # called by the trap
on_signal() {
  asked=1
  [ -z "$group" ] || kill -TERM "$group" 2>/dev/null
}
trap on_signal TERM INT # before there is something to remove
dir=$(mktemp -d) || exit 1
trap 'end_watch; end_probes; rm -rf "$dir" "$segments"' EXIT
host_options=()
! chooses_hosts || mpi=("${others[@]}")
[ "$(id -u)" != 0 ] || mpi=(--allow-run-as-root "${mpi[@]}")
mkfifo "$dir/output" || exit 1
own=() # options of mpirun, which takes none twice
[[ " ${mpi[*]} " =~ \ --?bind-to\  ]] || own+=(--bind-to none)
for setting in 'odls_base_sigkill_timeout 0' 'oob_tcp_keepalive_time 2' 'oob_tcp_keepalive_intvl 1' 'oob_tcp_keepalive_probes 2'; do
  read -ra words <<<"$setting"
  [[ " ${mpi[*]} " == *" ${words[0]} "* ]] || own+=(--mca "${words[@]}")
done
# Open MPI's shared memory gets a folder of this group, so that none is left of ranks that were killed while they started.  On
# another host that folder would be missing.
if on_this_host && [ -z "${OMPI_MCA_btl_vader_backing_directory:-}${OMPI_MCA_btl_sm_backing_directory:-}" ] &&
  [[ " ${mpi[*]} " != *_backing_directory\ * ]]; then
  segments=${TMPDIR:-/tmp}
  [ ! -w /dev/shm ] || segments=/dev/shm
  segments=$(mktemp -d "$segments/ingot-segments.XXXXXX") || exit 1
  export OMPI_MCA_btl_vader_backing_directory="$segments" OMPI_MCA_btl_sm_backing_directory="$segments" # Open MPI 4, 5
fi

# mpirun and the logins to other hosts that it has started
end_session() {
  local pid line fields
  for pid in /proc/[0-9]*; do
    { read -r line <"$pid/stat"; } 2>/dev/null || continue
    read -ra fields <<<"${line##*) }" # state, parent, group, session, ...
    [ "${fields[3]:-}" != "$group" ] || kill -KILL "${pid#/proc/}" 2>/dev/null
  done
}

kill_session() {
  kill -KILL "$group" 2>/dev/null
  end_session
  killed=1
}

# A killed mpirun leaves them, in a folder that all of the user's share.
remove_files() {
  local all
  all="${OMPI_MCA_orte_tmpdir_base:-${TMPDIR:-/tmp}}/ompi.${HOSTNAME%%.*}.$(id -u)"
  rm -rf "$all/pid.$group" ${segments:+"$segments"/*}
  rmdir "$all" 2>/dev/null || true
}

# The coordinator says in a line of the output when it gives up the group of this epoch.
watch_group() {
  epoch=$2
  end_watch
  # by another name: it is no rank
  (exec -a ingot-watch "$program" "${worker[@]}" --die-with-parent --connect "$1" --watch-epoch "$2" >"$dir/output" 2>/dev/null </dev/null 3<&-) &
  watcher=$!
}

end_watch() {
  [ -z "$watcher" ] || kill "$watcher" 2>/dev/null
  watcher=''
}

# Milliseconds, for short times.
set_now() {
  now=${EPOCHREALTIME/[.,]/}
  now=$((now / 1000))
}

# Reads a line within so many seconds, notes a sign of life, copies any other line.
take_line() {
  local part
  IFS= read -r -t "$1" part <&3
  rc=$?
  line=$rest$part rest=''
  if [ $rc -gt 128 ]; then # the time is over, perhaps within a line
    rest=$line line=''
  fi
  case $line in
  *'welcomed by the coordinator'*)
    welcomed=${welcomed:-$SECONDS}
    [[ ! $line =~ 'welcomed by the coordinator at '([^ ]+)': epoch '([0-9]+) ]] || watch_group "${BASH_REMATCH[@]:1:2}"
    ;;
  'ingot-worker epoch '*' is given up: '*)
    [[ $line != "ingot-worker epoch $epoch "* ]] || given_up=${line#*' given up: '}
    line=''
    ;;
  *'no coordinator has welcomed this group'*': the server refuses this key'* | \
    *'no coordinator has welcomed this group'*': one side has keys'*) refused=1 ;;
  esac
  if [[ $line =~ 'ingot-worker rank '([0-9]+)' lives' ]]; then
    lived[BASH_REMATCH[1]]=$SECONDS
  elif [ -n "$line" ]; then
    printf '%s\n' "$line"
  fi
}

# Is there a rank without a sign of life?  After a pause of this script all of them have new time.
silent_rank() {
  local rank
  [ $((SECONDS - looked)) -le 2 ] || for rank in "${!lived[@]}"; do lived[rank]=$SECONDS; done
  looked=$SECONDS
  for rank in "${!lived[@]}"; do
    [ $((SECONDS - lived[rank])) -le "$SILENCE_S" ] || {
      silent=$rank
      return 0
    }
  done
  return 1
}

# mpirun waits, for two minutes or for ever, when its daemons on other hosts cannot connect to it.
say_no_start() {
  local why
  why=$(! chooses_hosts || unreached_ports)
  echo "run-group.sh: mpirun has started no rank within $START_S s: ${why:-its output may say why}: the start is ended" >&2
}

# Copies mpirun's output until it has ended.  When a rank has reported a fault, or a signal has come before there were ranks,
# mpirun gets END_S seconds.
follow() {
  local line rest='' fault='' rc silent now told='' looked=$SECONDS began=$SECONDS lived=()
  while kill -0 "$group" 2>/dev/null; do
    take_line "$([ -z "$told" ] && echo 0.5 || echo 0.1)"
    if [ -n "$given_up" ]; then
      set_now
      if [ -z "$told" ]; then
        told=$now
        echo "run-group.sh: the coordinator has given the group up ($given_up): it is ended" >&2
        kill -TERM "$group" 2>/dev/null
        ! has_spares || begin_probes
      elif [ $((now - told)) -gt $GRACE_MS ]; then # it waits for a host that cannot be reached
        kill_session
        return
      fi
    fi
    case $line in *' error worker'*) fault=${fault:-$SECONDS} ;; esac
    if [ ${#lived[@]} = 0 ]; then
      [ -z "$asked" ] || fault=${fault:-$SECONDS}
      if [ $((SECONDS - began)) -gt "$START_S" ]; then
        say_no_start
        kill_session
        return
      fi
    fi
    if [ "$looked" != "$SECONDS" ] && silent_rank; then
      echo "run-group.sh: rank $silent has shown no sign of life for $SILENCE_S s: the group is ended" >&2
      kill_session
      return
    fi
    if [ -n "$fault" ] && [ $((SECONDS - fault)) -gt "$END_S" ]; then
      echo "run-group.sh: mpirun has not ended ${END_S} s after a $([ -n "$asked" ] && echo signal || echo fault): it is killed" >&2
      kill_session
      return
    fi
    [ "$rc" = 0 ] || [ "$rc" -gt 128 ] || sleep 0.1
  done
  while take_line 0.1 && [ "$rc" = 0 ]; do :; done
  [ -z "$rest" ] || printf '%s\n' "$rest"
}

# Ends this program with a code that mpirun has returned if another start would end the same way.
end_if_permanent() {
  local why=''
  case $1 in
  0) exit 0 ;;
  2) why='the options of the worker are wrong' ;;
  3) why='the model cannot be served' ;;
  127) why='mpirun cannot be run' ;;
  4) [ -z "$refused" ] || why='the coordinator refuses the connection' ;;
  5) [ -n "$welcomed" ] || why='the coordinator refuses this group' ;;
  esac
  [ -n "$why" ] || return 0
  echo "run-group.sh: $why (the group ended with $1): it is not started again" >&2
  exit $(($1 == 4 ? 5 : $1))
}

# In the background: a signal ends it.
sleep_for() {
  sleep "$1" &
  wait $!
  kill $! 2>/dev/null
}

quick=0
while [ -z "$asked" ]; do
  if chooses_hosts && ! choose_hosts; then
    [ -n "$asked" ] || sleep_for 1
    continue
  fi
  welcomed='' refused='' given_up='' killed='' epoch=''
  setsid mpirun "${own[@]}" "${host_options[@]}" "${mpi[@]}" "$program" --signs-of-life "${worker[@]}" >"$dir/output" 2>&1 </dev/null &
  group=$!
  exec 3<>"$dir/output"
  follow
  wait "$group"
  rc=$?
  [ -n "$killed" ] || end_session # a login to a host that is lost does not end by itself
  end_watch
  exec 3<&-
  remove_files
  [ -z "$asked" ] || break
  [ -n "$given_up" ] || end_if_permanent "$rc"
  if [ -n "$welcomed" ] && [ $((SECONDS - welcomed)) -ge $QUICK_S ]; then
    quick=0
  elif [ "$rc" != 4 ]; then # 4: there is no coordinator
    quick=$((quick + 1))
  fi
  if [ $quick -ge "$MAX_QUICK" ]; then
    echo "run-group.sh: the group ended $quick times before it had served for $QUICK_S s, the last time with $rc" >&2
    exit 1
  fi
  most=30
  [ -z "$welcomed" ] || most=5
  pause=$(awk -v n=$quick -v most=$most 'BEGIN { p = 0.1 * 2 ^ n; print (p > most) ? most : p }')
  [ -z "$given_up" ] || [ $quick -gt 1 ] || pause=0
  echo "run-group.sh: the group ended with $rc, starting it again in $pause s" >&2
  sleep_for "$pause"
done
if [ -n "$group" ]; then
  wait "$group" 2>/dev/null
  end_session
  remove_files
fi
exit 0
