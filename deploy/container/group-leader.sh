#!/usr/bin/env bash
# The first host of a worker group in a container: waits until the others can be reached, then runs the group
# (ingot-run-group).
#   group-leader.sh KEYS RANKS HOST... -- [options of ingot-worker]
# KEYS: folder with id (private key of the group).  RANKS: of each host.  INGOT_SSH_PORT (2222): of group-host.sh.
# The first host is this one.
set -euo pipefail

usage='usage: group-leader.sh KEYS RANKS HOST... -- [options of ingot-worker]'
keys=${1:?$usage} ranks=${2:?$usage}
shift 2
hosts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  hosts+=("$1")
  shift
done
if [ $# = 0 ] || [ ${#hosts[@]} = 0 ]; then
  echo "$usage" >&2
  exit 2
fi
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
install -m 600 "$keys/id" "$dir/id"
# Each start of a pod has a new host key; the group's key is what both sides trust.
ssh="ssh -i $dir/id -p ${INGOT_SSH_PORT:-2222} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=5"
for host in "${hosts[@]:1}"; do
  until $ssh "$host" true; do
    echo "group-leader.sh: waiting for $host" >&2
    sleep 1
  done
done
list=$(printf "%s:$ranks," "${hosts[@]}")
ingot-run-group --mca plm_rsh_agent "$ssh" -np $((ranks * ${#hosts[@]})) --host "${list%,}" -- "$@" &
trap 'kill -TERM $!' TERM INT
rc=0
wait $! || rc=$?
# a signal ends the first wait only
while kill -0 $! 2>/dev/null; do wait $! || rc=$?; done
exit "$rc"
