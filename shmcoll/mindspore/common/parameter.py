"""`mindspore.common.parameter`: `Parameter` under the path that MindSpore has."""

from shmcoll.mindspore.parameter import Parameter, ParameterTuple

__all__ = ["Parameter", "ParameterTuple"]
