#!/usr/bin/env bash
# Runs one worker group under mpirun and starts it again when it ends by a fault, or when a rank shows no sign of life for 5 s
# (it is stopped, or its host cannot be reached).  For one host or several; systemd and Slurm use it too (deploy/systemd,
# deploy/slurm).
#   deploy/run-group.sh [options of mpirun] -- [options of ingot-worker]
#   deploy/run-group.sh -np 8 --hostfile hosts -- --model /models/m --connect tcp://head:5556
# SIGTERM and SIGINT end the group.  Open MPI's waits are shortened so that a killed rank, a stopped one and a lost host
# are noticed within seconds; an option of yours with the same name comes later and wins.
# Every host needs the programs and the model at the same paths, a login with keys from this host, and, where hosts have
# several networks or firewalls, --mca oob_tcp_if_include, btl_tcp_if_include and the ports (docs/hosts.md).
# Exit codes: 0 the coordinator has drained, or a signal came; 2 wrong options; 3 the model cannot be served; 1 the group
# ended ten times in a row within ten seconds of its start.
set -uo pipefail

QUICK_S=10        # a group that lived shorter died at once
MAX_QUICK=10      # so often in a row
END_S=${INGOT_END_S:-2} # mpirun gets so long to end when a rank has reported a fault: it waits for hosts that cannot be reached
SILENCE_S=${INGOT_SILENCE_S:-5} # a rank that has written no sign of life (--signs-of-life) for longer has stopped

mpi=() worker=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case "$1" in
  -h | --help)
    sed -n '2,13s/^# \{0,1\}//p' "$0"
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
program=$(command -v ingot-worker || echo "$here/../build/release/bin/ingot-worker")
[ "$(id -u)" != 0 ] || mpi=(--allow-run-as-root "${mpi[@]}")

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkfifo "$dir/output" || exit 1
asked='' group=''
on_signal() {
  asked=1
  [ -z "$group" ] || kill -TERM "$group" 2>/dev/null
}
trap on_signal TERM INT

# mpirun and the logins to other hosts that it has started
end_session() {
  local stat fields
  for stat in /proc/[0-9]*/stat; do
    fields=$(sed 's/.*) //' "$stat" 2>/dev/null) || continue # state, parent, group, session, ...
    [ "$(echo "$fields" | cut -d ' ' -f 4)" != "$group" ] || kill -KILL "$(basename "$(dirname "$stat")")" 2>/dev/null
  done
}

# A killed mpirun leaves them, in a folder that all of the user's share.
remove_files() {
  local all
  all="${OMPI_MCA_orte_tmpdir_base:-${TMPDIR:-/tmp}}/ompi.${HOSTNAME%%.*}.$(id -u)"
  rm -rf "$all/pid.$group"
  rmdir "$all" 2>/dev/null || true
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

# Copies mpirun's output until it has ended.  When a rank has reported a fault mpirun gets END_S seconds.
follow() {
  local line rest='' fault='' rc silent looked=$SECONDS lived=()
  while kill -0 "$group" 2>/dev/null; do
    take_line 0.5
    case $line in *' error worker'*) fault=${fault:-$SECONDS} ;; esac
    if [ "$looked" != "$SECONDS" ] && silent_rank; then
      echo "run-group.sh: rank $silent has shown no sign of life for $SILENCE_S s: the group is ended" >&2
      end_session
      return
    fi
    if [ -n "$fault" ] && [ $((SECONDS - fault)) -gt "$END_S" ]; then
      echo "run-group.sh: mpirun has not ended ${END_S} s after a fault: it is killed" >&2
      end_session
      return
    fi
    [ $rc = 0 ] || [ $rc -gt 128 ] || sleep 0.1
  done
  while take_line 0.1 && [ $rc = 0 ]; do :; done
  [ -z "$rest" ] || printf '%s\n' "$rest"
}

quick=0
while [ -z "$asked" ]; do
  began=$SECONDS
  setsid mpirun --bind-to none --mca odls_base_sigkill_timeout 0 --mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 \
    --mca oob_tcp_keepalive_probes 2 "${mpi[@]}" "$program" --signs-of-life "${worker[@]}" >"$dir/output" 2>&1 </dev/null &
  group=$!
  exec 3<>"$dir/output"
  follow
  wait "$group"
  rc=$?
  exec 3<&-
  remove_files
  [ -z "$asked" ] || break
  case $rc in
  0) exit 0 ;;
  2 | 3) exit $rc ;;
  esac
  if [ $((SECONDS - began)) -lt $QUICK_S ]; then quick=$((quick + 1)); else quick=0; fi
  if [ $quick -ge $MAX_QUICK ]; then
    echo "run-group.sh: the group ended $quick times within $QUICK_S s of its start, the last time with $rc" >&2
    exit 1
  fi
  pause=$(awk -v n=$quick 'BEGIN { p = 0.1 * 2 ^ n; print (p > 5) ? 5 : p }')
  echo "run-group.sh: the group ended with $rc, starting it again in $pause s" >&2
  sleep "$pause"
done
if [ -n "$group" ]; then
  wait "$group" 2>/dev/null
  remove_files
fi
exit 0
