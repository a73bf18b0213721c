"""shmcoll's ranks as a backend of joblib. Importing this module registers it.

Example:
    >>> import joblib
    >>> import shmcoll.joblib
    >>> with joblib.parallel_config("shmcoll", n_jobs=2):
    ...     joblib.Parallel()(joblib.delayed(abs)(item) for item in (-1, -2))
    [1, 2]
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib.parallel import AutoBatchingMixin, ParallelBackendBase, register_parallel_backend

from shmcoll.engine.system.cores import usable_cores
from shmcoll.runner.executor import Executor


class ShmcollBackend(AutoBatchingMixin, ParallelBackendBase):
    """Makes the calls of `joblib.Parallel` on a `shmcoll.Executor`, which it starts and ends with the call."""

    supports_retrieve_callback = True
    supports_return_generator = True
    default_n_jobs = -1

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of ranks. Below 0 the cores are counted from the end, as joblib does."""
        wanted = self.default_n_jobs if n_jobs is None else n_jobs
        if wanted == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        return max(1, usable_cores() + 1 + wanted) if wanted < 0 else wanted

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Start the ranks."""
        self.parallel = parallel
        number = self.effective_n_jobs(n_jobs)
        self._executor = Executor(number)
        return number

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> Future[Any]:
        """Have a rank call a batch of functions."""
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """Return the results of a batch, or raise its exception."""
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """End the ranks, whatever they do, and start others if joblib goes on."""
        self._executor._kill()
        if ensure_ready:
            self.configure(self.parallel.n_jobs, self.parallel)

    def terminate(self) -> None:
        """End the ranks."""
        self._executor.shutdown()


register_parallel_backend("shmcoll", ShmcollBackend)
