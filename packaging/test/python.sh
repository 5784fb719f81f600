# The package of Python, with its library.
# shellcheck shell=sh
install python3-tanada
python3 - <<'END'
import tanada
import tanada.pool

assert any(entry.name == "passwd" for entry in tanada.stores.list("/etc"))
print(tanada.__version__, tanada.library_dir())
END
install libtanada-dev
test -f "$(python3 -c 'import tanada; print(tanada.include_dir())')/tanada/status.h"
echo "imported tanada $(python3 -c 'import tanada; print(tanada.__version__)') and listed /etc"
