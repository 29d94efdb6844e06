"""Processes on this machine, started by Lightning; when one of them fails, the first one says so before all end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver, _SubprocessScriptLauncher
from lightning_fabric.utilities.distributed import _set_num_threads_if_needed

TIME_TO_TELL = 60.0
"""Seconds that the first process has to record and say what has happened, on a machine that may be busy."""


class DataParallel(DDPStrategy):
    """PyTorch's DDP, whose processes end one after the other when one fails.

    Lightning's observer kills the first process, like all others, within five seconds after one has failed. Often that
    is before it has noticed, and the run ends without a word and without a record.
    """

    def _configure_launcher(self) -> None:
        super()._configure_launcher()
        environment = self.cluster_environment
        if isinstance(self._launcher, _SubprocessScriptLauncher) and environment is not None:
            self._launcher = _Launcher(environment, self.num_processes, self.num_nodes)


class _Launcher(_SubprocessScriptLauncher):
    """Lightning's, with another observer, and processes that are called like the first one.

    Lightning calls ``sys.argv``, which command lines change: of ``graphbench train`` it would make a file's name.
    """

    def launch(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Starts the other processes and calls the function, see Lightning."""
        environment = self.cluster_environment
        if environment.creates_processes_externally:
            return super().launch(function, *args, **kwargs)
        environment.validate_settings(num_devices=self.num_processes, num_nodes=self.num_nodes)
        self._call_children_scripts()
        Observer(os.getpid(), self.procs).start()
        _set_num_threads_if_needed(num_processes=self.num_processes)
        return function(*args, **kwargs)

    def _call_children_scripts(self) -> None:
        self._check_can_spawn_children()
        environment = self.cluster_environment
        os.environ |= {
            "MASTER_ADDR": environment.main_address,
            "MASTER_PORT": str(environment.main_port),
            "NODE_RANK": str(environment.node_rank()),
            "LOCAL_RANK": str(environment.local_rank()),
            "WORLD_SIZE": str(self.num_processes * self.num_nodes),
        }
        command = [sys.executable, *sys.orig_argv[1:]]
        for rank in range(1, self.num_processes):
            self.procs.append(subprocess.Popen(command, env={**os.environ, "LOCAL_RANK": str(rank)}))


class Observer(_ChildProcessObserver):
    """Kills the other processes as soon as it sees that one has failed, and the first one if it does not end by itself.

    Those that communicate through sockets notice at once; a GPU may wait for the killed ones for ever.

    Args:
        main: number of the first process.
        others: processes that it has started.
        seconds: between two looks.
        time_to_tell: seconds until the first process is killed.
    """

    def __init__(
        self, main: int, others: Sequence[subprocess.Popen[Any]], seconds: int = 5, time_to_tell: float = TIME_TO_TELL
    ) -> None:
        super().__init__(main, list(others), seconds)
        self._time_to_tell = time_to_tell

    def _terminate_all(self) -> None:
        for process in self._child_processes:
            process.kill()
        time.sleep(self._time_to_tell)
        os.kill(self._main_pid, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
