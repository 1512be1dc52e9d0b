#!/bin/sh
# The headers that a device's sources (C++17) include compile as C++ without a warning.
cd "$(dirname "$0")/../.." || exit 1
CXX=${CXX:-c++}
command -v "$CXX" >/dev/null || { echo "no C++ compiler"; exit 77; }
for h in backends/backend.h backends/exact_math.h common/draw.h common/plan.h; do
  printf '#include "%s"\n' "$h" |
    "$CXX" -std=c++17 -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only -I. -x c++ - || exit 1
done
