"""The measurements: programs, their options, and the bars."""

from runs import Experiment, Figure

MICRO = 1e6
GIGA = 1e-9


def point(quick):
    return Experiment(
        "point",
        "point",
        ("200" if quick else "2000",),
        (
            Figure("half_8", "half round trip, 8 B", "us", MICRO, bar=1.05),
            Figure("half_4096", "half round trip, 4 KiB", "us", MICRO, bar=1.05),
            Figure("rate_1m", "messages of 1 MiB", "GB/s", GIGA, "higher", 0.95),
            Figure("rate_4m", "messages of 4 MiB", "GB/s", GIGA, "higher", 0.95),
        ),
        timeout_s=30,
    )


def overlap(quick):
    size = "8 MiB over 1 Gb/s"
    return Experiment(
        "overlap",
        "overlap",
        (str(8 << 20), "0.4", "1" if quick else "3"),
        (
            Figure(
                "posted",
                f"{size}, 0.4 s of computing after MPI_Irecv: hidden",
                "part",
                1,
                "higher",
                0.95,
                alone=True,
            ),
            Figure(
                "sender",
                f"{size}, receiver waits while the sender computes: hidden",
                "part",
                1,
                "higher",
                0.95,
                alone=True,
            ),
            Figure(
                "late",
                f"{size}, receive posted after the computing: hidden",
                "part",
                1,
                "higher",
                0.95,
                alone=True,
            ),
            Figure(
                "slower",
                f"{size}: computing, times its time alone",
                "x",
                1,
                "lower",
                1.05,
                alone=True,
            ),
            Figure("plain", f"{size}: the transfer alone", "ms", 1e3, "lower", 1.1),
        ),
        over_link=True,
        timeout_s=90,
    )


def match(count, bar):
    return Experiment(
        f"match {count}",
        "match",
        (str(count), "3"),
        (
            Figure(
                "unexpected",
                f"{count} x 64 B, unexpected, received in reverse order",
                "us each",
                MICRO,
                bar=bar,
                alone=True,
            ),
            Figure(
                "posted",
                f"{count} x 64 B, posted before in reverse order",
                "us each",
                MICRO,
                bar=bar,
                alone=True,
            ),
            Figure(
                "wildcard",
                f"{count} x 64 B, in order with wildcards",
                "us each",
                MICRO,
                bar=bar,
                alone=True,
            ),
            Figure("peak_mib", f"{count} x 64 B: peak memory of the receiver", "MiB"),
        ),
        timeout_s=30 if count <= 10000 else 120,
    )


def stencil(mebibytes, rows, steps, bar):
    """Halos of this many MiB, two in each direction. Small ones fit the system's socket buffers,
    which hides their transfer with any carrier. The number of rows is such that computing takes
    about as long as sending the halos over the link.
    """
    what = f"stencil, halos of {mebibytes} MiB over 1 Gb/s"
    return Experiment(
        f"stencil {mebibytes} MiB",
        "stencil",
        ("4096", str(32 * mebibytes), str(rows), str(steps)),
        (
            Figure("step", f"{what}: a step", "ms", 1e3, "lower", bar),
            Figure("computing", f"{what}: computing of a step", "ms", 1e3),
        ),
        over_link=True,
        timeout_s=90,
        same="checksum",
    )


def idle(quick):
    seconds = 3 if quick else 30
    return Experiment(
        "idle",
        "idle",
        (str(seconds),),
        (
            Figure(
                "asleep",
                f"4 ranks asleep outside MPI for {seconds} s",
                "CPU s",
                bar=0.1,
                alone=True,
            ),
            # An MPI waits by polling, which uses a processor with every provider.
            Figure("blocked", f"4 ranks for {seconds} s, 3 of them in MPI_Recv", "CPU s"),
        ),
        ranks=4,
        timeout_s=2 * seconds + 60,
    )


def all_of(quick):
    """By the name on the command line."""
    return {
        "point": [point(quick)],
        "overlap": [overlap(quick)],
        "match": [match(1000, None) if quick else match(10000, 0.6)],
        "many": [match(100000, None)],
        "stencil": [
            stencil(1, 48, 10 if quick else 40, None),
            stencil(8, 128, 3 if quick else 10, 1 / 1.3),
        ],
        "idle": [idle(quick)],
    }
