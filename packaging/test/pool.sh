# The daemon by its unit's command line as its user, and the commands.
# shellcheck shell=sh
install tanada-poold tanada-tools
getent passwd tanada-poold
tanada --version
tanada doctor || true
command=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/tanada-poold.service)
tanada pool key new --namespaces runs >/etc/tanada/keys
chown tanada-poold /etc/tanada/keys
chmod 600 /etc/tanada/keys
sed -i 's|^# key_file|key_file|; s|^size = .*|size = "64MiB"|' /etc/tanada/poold.toml
cat >daemon.sh <<END
exec $command
END
setpriv --reuid tanada-poold --regid tanada-poold --clear-groups sh daemon.sh >daemon.log 2>&1 &
daemon=$!
export TND_POOL_KEY_FILE=/etc/tanada/keys
seq 100000 >numbers
tries=0
until tanada pool cp numbers pool://127.0.0.1/runs/numbers; do
  tries=$((tries + 1))
  [ $tries -lt 50 ] || { cat daemon.log; exit 1; }
  sleep 0.1
done
tanada pool cat pool://127.0.0.1/runs/numbers | cmp - numbers
kill $daemon
wait $daemon
apt-get -qq purge -y tanada-poold tanada-tools >/dev/null
if [ -e /usr/bin/tanada-poold ] || [ -e /etc/tanada/poold.toml ]; then exit 1; fi
echo "put and got $(wc -c <numbers) bytes by the unit's command line, and removed the packages"
