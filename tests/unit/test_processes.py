"""A pid and a start time name a process for ever."""

import os
import subprocess
import sys

from ranks import poll

from shmcoll.engine.processes import process_start


def test_a_living_process_keeps_its_start_time():
    assert process_start(os.getpid()) == process_start(os.getpid()) > 0


def test_a_process_has_no_start_time_once_it_has_ended_waited_for_or_not():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert process_start(child.pid) >= process_start(os.getpid())
        child.kill()
        assert poll(lambda: process_start(child.pid) == 0, 5)  # a zombie
        child.wait()
        assert process_start(child.pid) == 0


def test_there_is_no_such_process():
    assert process_start(1 << 30) == 0
