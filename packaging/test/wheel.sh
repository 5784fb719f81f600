# The wheel, without Debian's packages of Tanada.
# shellcheck shell=sh disable=SC2154
install python3-venv
python3 -m venv environment
environment/bin/pip install -q --no-index --find-links /packages tanada
environment/bin/python -c 'import tanada, tanada.pool; print(tanada.__version__)'
environment/bin/tanada --version
start_daemon environment/bin/tanada-poold 16MiB # sets daemon and number
echo text >text
environment/bin/tanada pool cp text "pool://127.0.0.1:$number/runs/text"
[ "$(environment/bin/tanada pool cat "pool://127.0.0.1:$number/runs/text")" = text ]
kill "$daemon"
wait "$daemon"
echo "ran tanada-poold and a put of" /packages/*.whl
