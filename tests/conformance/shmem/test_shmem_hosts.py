"""PEs on several hosts, each a network namespace of its own, launched by Open MPI's mpirun: programs, and a cable that is cut."""

import sys
import time

import pytest
import shmem_jobs
from shmem_jobs import ALL, ROOT, processes

sys.path.insert(0, str(ROOT / "tools/mpi"))

import link  # noqa: E402
from talk import Talk  # noqa: E402

LIMIT = 240  # seconds, on a busy machine
PATIENCE = 60  # seconds a machine may be late by
FABRICS = {"default": {}, "tcp": {"TND_PGAS_FABRIC": "tcp;ofi_rxm"}} if ALL else {"default": {}}

pytestmark = pytest.mark.skipif(
    not shmem_jobs.IS_OURS, reason="others choose their networks otherwise"
)


@pytest.fixture(scope="module")
def launcher(jobs):
    if reason := link.missing(("ip", "unshare")):
        pytest.skip(reason)
    if not shmem_jobs.is_openmpi4():
        pytest.skip("an mpirun of Open MPI 4 is not there: apt-get install openmpi-bin")

    def launch(hosts, name, words=(), per_host=1, **environment):
        program = jobs.build(name)
        everywhere = {**environment, "TND_PGAS_TIMEOUT": environment.get("TND_PGAS_TIMEOUT", "60s")}
        command = [
            "mpirun",
            "-n",
            str(per_host * len(hosts.hosts)),
            "--oversubscribe",
            "--bind-to",
            "none",
            "--host",
            ",".join(f"{host}:{per_host}" for host in hosts.hosts),
            "--map-by",
            "node",
            "--mca",
            "plm_rsh_agent",
            hosts.agent,
            *(word for variable in everywhere for word in ("-x", variable)),
            program,
            *words,
        ]
        known = {
            name: value for name, value in jobs.environment().items() if name != "OMPI_MCA_plm"
        }
        return processes.run(
            hosts.inside(command), {**known, **everywhere}, LIMIT, patience_s=PATIENCE
        )

    return launch


@pytest.fixture(scope="module")
def bridge(launcher):
    with link.Bridge(3) as hosts:
        yield hosts


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize(
    "name, words",
    [
        ("put_get", []),
        ("atomics", [20]),
        ("collectives", [70000, 50]),
        ("litmus", [100]),
        ("threads", [3]),
        ("since_1_6", []),
    ]
    if ALL
    else [("litmus", [60])],
    ids=str,
)
def test_three_hosts(launcher, bridge, name, words, fabric):
    done = launcher(bridge, name, [*map(str, words)], **FABRICS[fabric])
    shmem_jobs.require_passed(done)
    assert done.left == 0


def test_two_on_each_host(launcher, bridge):
    """Shared memory among those of a host, the fabric between hosts."""
    shmem_jobs.require_passed(launcher(bridge, "litmus", ["60"], per_host=2))


@pytest.fixture
def cable(launcher):
    with link.Cable() as hosts:
        yield hosts


def talk_over(launcher, fabric, cable, folder, *options, **environment):
    # One value for all hosts: the interface's name, which becomes an address of each. The launcher talks over the bridge, so that
    # it is not what the cut hits.
    chosen = {**FABRICS[fabric], "TND_PGAS_INTERFACE": cable.CABLE, **environment}
    return Talk(lambda words: launcher(cable, "talk", words, **chosen), folder, PATIENCE, *options)


@pytest.mark.parametrize("fabric", FABRICS)
def test_a_short_cut_heals(launcher, cable, tmp_path, fabric):
    with talk_over(launcher, fabric, cable, tmp_path) as talk:
        talk.cut_for_a_while(cable)
        done = talk.finish()
    shmem_jobs.require_passed(done)
    assert done.left == 0


# Without quiet a PE may sit in a wait when the cable is cut, with an operation under way that nothing asks for.
@pytest.mark.parametrize(
    "options", [["quiet"], []] if ALL else [["quiet"]], ids=["quiet", "waits"][: 1 + ALL]
)
@pytest.mark.parametrize("fabric", FABRICS)
def test_a_cut_ends_the_job(launcher, cable, tmp_path, fabric, options):
    with talk_over(launcher, fabric, cable, tmp_path, *options, TND_PGAS_TIMEOUT="4s") as talk:
        cable.cut()
        start = time.monotonic()
        done = talk.run.result()
        seconds = time.monotonic() - start
    assert done.status == "failed" and "shmem_" in done.output, (
        f"{done.status}: {done.output[-3000:]}"
    )
    assert 1 < seconds < 4 + PATIENCE, done.output[-3000:]
    assert done.left == 0
