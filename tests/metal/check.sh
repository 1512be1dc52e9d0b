#!/bin/sh
# Everything that the first Mac has to show about the Metal backend, in less than ten minutes: see check.sh --help.
command -v python3 >/dev/null || { echo "check.sh: no python3 here (xcode-select --install brings it)" >&2; exit 2; }
exec python3 "$(dirname "$0")/check.py" "$@"
