#!/usr/bin/env bash
# Dependencies point one way: proto <- common <- {backends <- collectives <- worker}, common <- coordinator,
# common <- client; generated protobuf code is seen by common/wire alone.
set -euo pipefail
cd "$(dirname "$0")/../.."

declare -A may=(
  [common]="common"
  [backends]="backends common"
  [collectives]="collectives backends common"
  [worker]="worker collectives backends common"
  [coordinator]="coordinator common"
  [client]="client common"
)
bad=0
for folder in "${!may[@]}"; do
  while IFS=: read -r file line text; do
    target=$(sed -n 's/.*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' <<<"$text")
    case "$target" in
    *.pb-c.h)
      [[ $file == common/wire/* ]] && continue
      echo "$file:$line: only common/wire may include $target"
      bad=1
      continue
      ;;
    */*) ;;
    *)
      echo "$file:$line: \"$target\": write the path from the root of the tree"
      bad=1
      continue
      ;;
    esac
    allowed=0
    for m in ${may[$folder]}; do [[ $target == "$m"/* ]] && allowed=1; done
    if [ "$allowed" = 0 ]; then
      echo "$file:$line: $folder must not include $target"
      bad=1
    fi
  done < <(grep -rnE '#[[:space:]]*include[[:space:]]*"' "$folder" --include='*.[chm]' --include='*.cu' --include='*.cuh' --include='*.cpp' || true)
done
[ "$bad" = 0 ] && echo "includes: every arrow points the right way"
exit "$bad"
