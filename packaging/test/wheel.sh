# The wheel, without Debian's packages of Tanada.
# shellcheck shell=sh
install python3-venv
python3 -m venv environment
environment/bin/pip install -q --no-index --find-links /packages tanada
environment/bin/python -c 'import tanada, tanada.pool; print(tanada.__version__)'
environment/bin/tanada --version
environment/bin/tanada-poold --port 0 --size 16MiB --port-file port >daemon.log 2>&1 &
daemon=$!
tries=0
until [ -s port ]; do
  tries=$((tries + 1))
  [ $tries -lt 100 ] || { cat daemon.log; exit 1; }
  sleep 0.1
done
read -r number _ <port
echo text >text
environment/bin/tanada pool cp text "pool://127.0.0.1:$number/runs/text"
[ "$(environment/bin/tanada pool cat "pool://127.0.0.1:$number/runs/text")" = text ]
kill $daemon
wait $daemon
echo "ran tanada-poold and a put of" /packages/*.whl
