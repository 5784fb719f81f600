"""The device calls for a warp: all of its lanes call, with equal arguments; see
:class:`tanada.numba.Calls` for the arguments.
"""

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
) = _calls_of("warp")
