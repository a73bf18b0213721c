"""`mindspore.ops.operations._inner_ops`: where versions of MindSpore before 2.3 have the operators of messages."""

from shmcoll.mindspore.ops.messages import Receive, Send

__all__ = ["Receive", "Send"]
