#!/usr/bin/env bash
# A host of a worker group in a container: sshd of this user, for mpirun of group-leader.sh alone.
#   group-host.sh KEYS          KEYS: folder with id (private key of the group) and id.pub
# INGOT_SSH_PORT (2222): the port.  It ends with SIGTERM.
set -euo pipefail

keys=${1:?usage: group-host.sh KEYS}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ssh-keygen -q -t ed25519 -N '' -f "$dir/host"
install -m 600 "$keys/id.pub" "$dir/authorized_keys"
cat >"$dir/config" <<CONF
Port ${INGOT_SSH_PORT:-2222}
HostKey $dir/host
AuthorizedKeysFile $dir/authorized_keys
AuthenticationMethods publickey
PidFile $dir/pid
UsePAM no
StrictModes no
AllowTcpForwarding no
X11Forwarding no
PermitTTY no
CONF
/usr/sbin/sshd -D -e -f "$dir/config" &
trap 'kill -TERM $!; wait $! || true; exit 0' TERM INT
wait $!
