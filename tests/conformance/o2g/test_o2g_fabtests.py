"""libfabric's own programs over o2g: Debian's fi_info and fi_pingpong, and fabtests.

TND_FABTESTS names the bin folder of each built version of fabtests, separated by colons. Without
it no fabtests run. The lists below have those that apply; docs/o2g.md explains why the others do
not. Where a version needs another libfabric than the system's, TND_FABTESTS_LIBRARIES names the
folders of the libraries in the same order."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("TANADA_BUILD", ROOT / "build/dev"))
PROVIDER = pathlib.Path(os.environ.get("TND_O2G_PROVIDER", BUILD / "lib"))
LIMIT = 120  # seconds; fabtests poll without a pause, so they are slow on a busy machine

FABTESTS = [pathlib.Path(each) for each in os.environ.get("TND_FABTESTS", "").split(":") if each]
LIBRARIES = os.environ.get("TND_FABTESTS_LIBRARIES", "").split(":")

ALONE = [
    "fi_getinfo_test -s 127.0.0.1",
    "fi_av_test -g 127.0.0.1 -n 1 -s 127.0.0.1 -e rdm",
    "fi_dom_test -n 2",
    "fi_eq_test",
    "fi_cq_test",
    "fi_mr_test",
    "fi_cntr_test",
    "fi_setopt_test",
]
PAIRS = [
    "fi_av_xfer -e rdm",
    "fi_rdm",
    "fi_rdm -U",
    "fi_rdm_rma_event",
    "fi_rdm_tagged_peek",
    "fi_multi_mr -e rdm -V",
    "fi_multi_ep -e rdm -v",
    "fi_recv_cancel -e rdm -V",
    "fi_unexpected_msg -e rdm -I 10",
    "fi_resmgmt_test -m 100",
    "fi_poll -t queue",
    "fi_poll -t counter",
    "fi_bw -e rdm -v -T 1 -I 50",
    "fi_flood -e rdm -v -T 1 -I 50",
    "fi_inject_test -e rdm -A inject -v",
    "fi_inject_test -e rdm -N -A inject -v",
    "fi_inject_test -e rdm -A inj_complete -v",
    "fi_rdm_multi_client -C 10 -I 5",
    "fi_rdm_multi_client -C 10 -I 5 -U",
    "fi_rdm_multi_domain -V",
    "fi_unmap_mem",
    "fi_rma_bw -e rdm -o write -I 5",
    "fi_rma_bw -e rdm -o write -I 5 -U",
    "fi_rma_bw -e rdm -o read -I 5",
    "fi_rma_bw -e rdm -o writedata -I 5",
    "fi_rma_pingpong -e rdm -o write -I 5",
    "fi_rma_tx_completion -e rdm",
    "fi_rdm_atomic -I 5 -o all",
    "fi_rdm_atomic -I 5 -o all -U",
    "fi_rdm_cntr_pingpong -I 5",
    "fi_multi_recv -e rdm -I 5",
    "fi_rdm_pingpong -I 5 -v",
    "fi_rdm_pingpong -I 5 -v -U",
    "fi_rdm_pingpong -I 5 -c sread",
    "fi_rdm_pingpong -I 5 -c fd",
    "fi_rdm_pingpong -I 5 -K",
    "fi_rdm_tagged_pingpong -I 5 -v",
    "fi_rdm_tagged_pingpong -I 5 -v -U",
    "fi_rdm_tagged_bw -I 5 -v",
    "fi_rdm_tagged_bw -I 5 -v -U",
    "fi_rdm_bw -I 50",
    "fi_rdm_bw_mt -n 2 -I 50",
]
# The options of fi_cq_data differ between versions.
CHANGED = ["fi_cq_data -e rdm", "fi_cq_data -e rdm -o senddata", "fi_cq_data -e rdm -o writedata"]


@pytest.fixture(scope="module")
def environment():
    if not (PROVIDER / "libo2g-fi.so").exists():
        pytest.skip(f"{PROVIDER}/libo2g-fi.so is not built: ninja -C {BUILD} o2g-fi")
    return {**os.environ, "FI_PROVIDER_PATH": str(PROVIDER), "FI_PROVIDER": "o2g"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    """Return whether a TCP socket of this machine listens on the port, without connecting to it."""
    wanted = f":{port:04X} 00000000:0000 0A"
    return wanted in pathlib.Path("/proc/net/tcp").read_text()


def run(words, environment):
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT)


def pair(server, client, port, environment):
    """Run both programs. Return their combined output and both exit statuses."""
    first = subprocess.Popen(
        server, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        until = time.monotonic() + 20
        while not listens(port) and first.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        second = run(client, environment)
        output, _ = first.communicate(timeout=LIMIT)
        return output + second.stdout + second.stderr, (first.returncode, second.returncode)
    finally:
        first.kill()
        first.wait()


def system_program(name):
    if not shutil.which(name):
        pytest.skip(f"{name} is not there: apt-get install libfabric-bin")
    return name


def test_fi_info(environment):
    done = run([system_program("fi_info"), "-p", "o2g", "-v"], environment)
    assert done.returncode == 0, done.stderr
    assert "prov_name: o2g" in done.stdout and "type: FI_EP_RDM" in done.stdout
    # A ";" in the name would mean a provider layered over o2g.
    assert "FI_EP_MSG" not in done.stdout and ";" not in done.stdout


@pytest.mark.parametrize(
    "options", [[], ["-m", "tagged"], ["-c"]], ids=lambda each: " ".join(each) or "messages"
)
def test_fi_pingpong(environment, options):
    port = free_port()
    words = [system_program("fi_pingpong"), "-p", "o2g", "-e", "rdm", "-I", "20", *options]
    output, statuses = pair(
        [*words, "-B", str(port)], [*words, "-P", str(port), "127.0.0.1"], port, environment
    )
    assert statuses == (0, 0), output


@pytest.fixture(params=range(len(FABTESTS)), ids=lambda index: FABTESTS[index].parent.name)
def fabtests(request, environment):
    folder = FABTESTS[request.param]
    library = LIBRARIES[request.param] if request.param < len(LIBRARIES) else ""
    return folder, {**environment, "LD_LIBRARY_PATH": library} if library else environment


def program_of(folder, line):
    name, *options = line.split()
    if not (folder / name).exists():
        pytest.skip(f"this version has no {name}")
    return [str(folder / name), "-p", "o2g", *options]


@pytest.mark.parametrize("line", ALONE)
def test_alone(fabtests, line):
    folder, environment = fabtests
    done = run(program_of(folder, line), environment)
    assert done.returncode == 0, done.stdout + done.stderr


def passes(folder, environment, line):
    port = free_port()
    words = [*program_of(folder, line), "-s", "127.0.0.1"]
    return pair(
        [*words, "-B", str(port)], [*words, "-P", str(port), "127.0.0.1"], port, environment
    )


@pytest.mark.parametrize("line", PAIRS)
def test_pair(fabtests, line):
    output, statuses = passes(*fabtests, line)
    assert statuses == (0, 0), output[-3000:]


@pytest.mark.parametrize("line", CHANGED)
def test_changed(fabtests, line):
    output, statuses = passes(*fabtests, line)
    if "invalid option" in output or "Usage" in output:
        pytest.skip("this version has other options")
    assert statuses == (0, 0), output[-3000:]


def test_a_failure_is_seen(fabtests):
    """A missing capability makes a program fail. The other tests rely on this."""
    output, statuses = passes(*fabtests, "fi_rdm_shared_av")
    assert 0 not in statuses and "No data available" in output
