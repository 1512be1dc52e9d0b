#!/bin/sh
# Dependencies between folders, modules and the calls of files: see includes.py beside this file.
exec python3 "$(dirname "$0")/includes.py" "$@"
