"""A real SLURM of one node, started for a test session in a temporary folder, as the current user.

Debian and Ubuntu: ``apt-get install slurm-wlm munge``. No accounting, so ``sacct`` does not work, as on many clusters.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "munged")

_CONF = """\
ClusterName=test
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=20
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1
NodeName={host} CPUs=2 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def missing() -> list[str]:
    """Programs that are not installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Path]:
    """Starts the daemons and waits until the node is idle; ends them and all jobs afterwards.

    Yields:
        The file for ``SLURM_CONF``.
    """
    host = socket.gethostname().split(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    conf = folder / "slurm.conf"
    conf.write_text(_CONF.format(host=host, user=getpass.getuser(), folder=folder, ports=_free_ports(2)))
    environment = {**os.environ, "SLURM_CONF": str(conf), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    files = {"key": key, "seed": folder / "munge.seed", "pid": folder / "munge.pid", "log": folder / "munge.log"}
    munge = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket"]
    munge += [f"--{name}-file={path}" for name, path in files.items()]
    commands = (munge, ["slurmctld", "-D", "-c", "-f", str(conf)], ["slurmd", "-D", "-c", "-f", str(conf)])
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (folder / f"{command[0]}.out").open("wb") as log:
                started = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
            daemons.append(started)
            time.sleep(0.5)  # each needs the one before
        _wait_until_idle(environment)
        yield conf
    finally:
        subprocess.run(["scancel", "--full", "--signal=KILL", f"--user={getpass.getuser()}"], env=environment)
        time.sleep(0.5)
        for daemon in reversed(daemons):
            daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()
            daemon.wait()


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for opened in sockets:
            opened.bind(("", 0))
        return [opened.getsockname()[1] for opened in sockets]


def _wait_until_idle(environment: dict[str, str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True)
        if found.stdout.strip() == "idle":
            return
        time.sleep(0.3)
    raise RuntimeError(f"the cluster did not start: {found.stdout} {found.stderr}")
