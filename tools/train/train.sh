#!/bin/sh
# Makes models/mirim and models/mirim-draft anew: installs the pinned tools into a virtual environment
# (TRAIN_VENV, by default tools/train/.venv), generates the text, trains, measures. Less than an hour on two idle cores.
# Arguments go to train.py, for example --scale 0.05 for a trial.
set -eu
export OMP_WAIT_POLICY=passive # two threads, even where the cores are shared
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${TRAIN_VENV:-$here/.venv}
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet --requirement "$here/requirements.txt"
exec "$venv/bin/python" "$here/train.py" --out "$root/models/mirim" --draft-out "$root/models/mirim-draft" "$@"
