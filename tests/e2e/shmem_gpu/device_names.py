"""The calls for kernels in the draft "Auxiliary Specification for GPU Support" 0.1: result, name
and parameters of each.
"""

SIGNED = {"int": "int", "long": "long", "longlong": "long long"}
UNSIGNED = {"uint": "unsigned int", "ulong": "unsigned long", "ulonglong": "unsigned long long"}
FIXED = {"int32": "int32_t", "int64": "int64_t", "uint32": "uint32_t", "uint64": "uint64_t"}
AMO = {**SIGNED, **UNSIGNED, **FIXED, "size": "size_t", "ptrdiff": "ptrdiff_t"}
EXTENDED = {"float": "float", "double": "double", **AMO}
BITS = {**UNSIGNED, **FIXED}
RMA = {
    **EXTENDED,
    "longdouble": "long double",
    "char": "char",
    "schar": "signed char",
    "short": "short",
    "uchar": "unsigned char",
    "ushort": "unsigned short",
    "int8": "int8_t",
    "int16": "int16_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
}
REDUCED = {name: kind for name, kind in RMA.items() if name != "longdouble"}
REDUCED_BITS = {
    **BITS,
    "size": "size_t",
    **{name: RMA[name] for name in ("uchar", "ushort", "int8", "int16", "uint8", "uint16")},
}
GROUPS = ("", "_tg", "_htg")


def with_context(result, name, parameters):
    """A call, and the same on a context."""
    yield result, f"shmemg_{name}", parameters
    yield (
        result,
        f"shmemg_ctx_{name}",
        f"shmem_ctx_t, {parameters}" if parameters else "shmem_ctx_t",
    )


def atomics(name, kind):
    fetching = {"swap": f"{kind} *, {kind}"} if name in EXTENDED else {}
    plain = {"set": f"{kind} *, {kind}"} if name in EXTENDED else {}
    if name in EXTENDED:
        fetching["fetch"] = f"const {kind} *"
    if name in AMO:
        fetching |= {
            "compare_swap": f"{kind} *, {kind}, {kind}",
            "fetch_add": f"{kind} *, {kind}",
            "fetch_inc": f"{kind} *",
        }
        plain |= {"add": f"{kind} *, {kind}", "inc": f"{kind} *"}
    if name in BITS:
        fetching |= {f"fetch_{each}": f"{kind} *, {kind}" for each in ("and", "or", "xor")}
        plain |= {each: f"{kind} *, {kind}" for each in ("and", "or", "xor")}
    for what, parameters in fetching.items():
        yield from with_context(kind, f"{name}_atomic_{what}", f"{parameters}, int")
        yield from with_context("void", f"{name}_atomic_{what}_nbi", f"{kind} *, {parameters}, int")
    for what, parameters in plain.items():
        yield from with_context("void", f"{name}_atomic_{what}", f"{parameters}, int")


def calls():
    yield "int", "shmemg_my_pe", ""
    yield "int", "shmemg_n_pes", ""
    yield "void *", "shmemg_ptr", "const void *, int"
    yield "uint64_t", "shmemg_signal_fetch", "const uint64_t *"
    for group in GROUPS:
        for nbi in ("", "_nbi"):
            for way in ("put", "get"):
                yield from with_context(
                    "void", f"{way}mem{nbi}{group}", "void *, const void *, size_t, int"
                )
            yield from with_context(
                "void",
                f"putmem_signal{nbi}{group}",
                "void *, const void *, size_t, uint64_t *, uint64_t, int, int",
            )
        yield from with_context("void", f"fence{group}", "")
        yield from with_context("void", f"quiet{group}", "")
        yield "uint64_t", f"shmemg_signal_wait_until{group}", "uint64_t *, int, uint64_t"
        yield "int", f"shmemg_sync_all{group}", ""
        yield "int", f"shmemg_team_sync{group}", "shmem_team_t"
        for name, kind in AMO.items():
            yield "void", f"shmemg_{name}_wait_until{group}", f"{kind} *, int, {kind}"
            yield "int", f"shmemg_{name}_test{group}", f"{kind} *, int, {kind}"
    for name, kind in RMA.items():
        yield from with_context("void", f"{name}_p", f"{kind} *, {kind}, int")
        yield from with_context(kind, f"{name}_g", f"const {kind} *, int")
    for name, kind in EXTENDED.items():
        yield from atomics(name, kind)


def calls_on_streams():
    """Collectives that the host queues, which are not in the draft: parameters as in NVSHMEM."""
    stream = "shmemx_stream_t"
    yield "int", "shmemx_sync_all_on_stream", stream
    yield "int", "shmemx_team_sync_on_stream", f"shmem_team_t, {stream}"
    yield "int", "shmemx_team_barrier_on_stream", f"shmem_team_t, {stream}"
    for name, kind in {"": "void", **RMA}.items():
        begin, end = (f"shmemx_{name}_", "") if name else ("shmemx_", "mem")
        arrays = f"shmem_team_t, {kind} *, const {kind} *, size_t"
        yield "int", f"{begin}broadcast{end}_on_stream", f"{arrays}, int, {stream}"
        yield "int", f"{begin}fcollect{end}_on_stream", f"{arrays}, {stream}"
        yield "int", f"{begin}alltoall{end}_on_stream", f"{arrays}, {stream}"
    for operations, kinds in (
        (("sum", "prod", "min", "max"), REDUCED),
        (("and", "or", "xor"), REDUCED_BITS),
    ):
        for name, kind in kinds.items():
            for operation in operations:
                yield (
                    "int",
                    f"shmemx_{name}_{operation}_reduce_on_stream",
                    f"shmem_team_t, {kind} *, const {kind} *, size_t, {stream}",
                )
