"""`mindspore.set_device`: which device a program asks for. It decides the name of the world group, and nothing else."""

from shmcoll.mindspore.context import set_context

_TARGETS = ["CPU", "GPU", "Ascend"]


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Keep the device target and the number of a device, as `set_context` does.

    Args:
        device_target: "CPU", "GPU" or "Ascend".
        device_id: an integer of at least 0; None leaves it as it is.

    Raises:
        TypeError: `device_target` is not a string, or `device_id` is not an integer.
        ValueError: the value of one of them.
    """
    if not isinstance(device_target, str):
        raise TypeError(f"The parameter 'device_target' must be {str}, but got {type(device_target)}")
    if device_target not in _TARGETS:
        raise ValueError(f"The argument 'device_target' must be one of {_TARGETS}, but got {device_target}.")
    set_context(device_target=device_target, **({} if device_id is None else {"device_id": device_id}))
