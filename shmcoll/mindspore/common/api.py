"""`mindspore.common.api`: where programs for MindSpore wait for what it still computes."""


class _PyNativeExecutor:
    def sync(self) -> None:
        """Return at once: a function returns when its result is there."""


_pynative_executor = _PyNativeExecutor()

__all__ = ["_pynative_executor"]
