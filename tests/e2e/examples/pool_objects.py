"""The objects in a test's pool."""

import contextlib
import ctypes

from pool_daemon import BUILD, Daemon

LIST_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Pool(Daemon):
    library = None

    def start(self):
        self.library = ctypes.CDLL(BUILD / "lib/libtanada.so")
        return super().start()

    @contextlib.contextmanager
    def connection(self, space):
        connected = ctypes.c_void_p()
        assert (
            self.library.tnd_pool_connect(self.url(space).encode(), None, ctypes.byref(connected))
            == 0
        )
        try:
            yield connected
        finally:
            self.library.tnd_pool_disconnect(connected)

    def names(self, space):
        """Names of the committed objects, sorted."""
        found = []
        entry = LIST_ENTRY(lambda _, name, __: found.append(name.decode()) or 0)
        with self.connection(space) as connected:
            assert self.library.tnd_pool_list(connected, b"", entry, None) == 0
        return found

    def objects(self, space, size_max=16 << 20):
        """Name to bytes of all of them, verified against their checksums."""
        found, verify = {}, 1 << 10
        target, size = ctypes.create_string_buffer(size_max), ctypes.c_uint64()
        for name in self.names(space):
            with self.connection(space) as connected:
                got = self.library.tnd_pool_get(
                    connected,
                    name.encode(),
                    target,
                    ctypes.c_uint64(size_max),
                    ctypes.byref(size),
                    verify,
                )
            assert got == 0, (name, got)
            found[name] = ctypes.string_at(target, size.value)
        return found
