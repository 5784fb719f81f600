"""The device calls for one thread; see :class:`tanada.numba.Calls` for the arguments."""

from ._calls import calls_of as _calls_of

(
    gopen,
    gread,
    gwrite,
    gclose,
    gfstat,
    gfsync,
    gftruncate,
    gunlink,
    gprefetch,
    gmap,
    gunmap,
    gpage_size,
) = _calls_of("thread")
