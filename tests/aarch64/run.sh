#!/usr/bin/env bash
# run.sh FOLDER [ARGS...]: a short suite in the emulated machine that set_up.sh has made; ARGS for pytest instead of it.
#
# The emulator keeps the order of memory of the machine that it runs on, x86-64. So this does not show whether a fence is
# missing that aarch64 needs.
set -euo pipefail
folder=$1; shift
here=$(dirname "$0")
python=${PYTHON:-python3}
mkdir -p -m 700 "$folder/cache"

emulated() { "$here/enter.sh" "$folder" "$@"; }

echo "== compiling for aarch64 (minutes; what has not changed since is kept)"
emulated python3.11 -c 'from shmcoll.engine import cache; print(cache._platform())' >"$folder/platform.txt"
$python "$here/compile_ahead.py" "$folder/cache" "$folder/platform.txt"

if [ $# = 0 ]; then
  for example in "8 alltoall" "2 allreduce" "2 gather" "4 all_to_all_v"; do
    set -- $example
    echo "== examples/$2.py, $1 ranks"
    emulated python3.11 -m shmrun -n $1 examples/$2.py
  done
  set -- tests/engine/test_entry.py tests/engine/test_fences.py tests/engine/test_heap.py tests/engine/test_records.py \
    tests/engine/test_atomics.py tests/engine/test_many_operations.py \
    tests/crash/test_death.py
fi
echo "== tests"
emulated python3.11 -m pytest -q -p no:cacheprovider -o faulthandler_timeout=900 "$@"
