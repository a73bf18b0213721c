"""A program for `shmrun --mindspore`: run programs one after another, because importing MindSpore takes longest."""

import runpy
import sys

import mindspore as ms
from mindspore.communication import release

for path in sys.argv[1:]:
    runpy.run_path(path, run_name="__main__")
    release()
    ms.reset_auto_parallel_context()
