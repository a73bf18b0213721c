"""`mindspore._c_expression`: where programs for MindSpore find `GroupOptions`."""

from shmcoll.mindspore.communication.groups import GroupOptions

__all__ = ["GroupOptions"]
