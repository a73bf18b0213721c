"""A pid and a start time name a process for ever."""

import os
import resource
import subprocess
import sys

from shmcoll.engine.system.processes import has_ended, process_start
from tests.support.waiting import until


def test_a_living_process_keeps_its_start_time():
    assert process_start(os.getpid()) == process_start(os.getpid()) > 0


def test_a_process_has_no_start_time_once_it_has_ended_waited_for_or_not():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert process_start(child.pid) >= process_start(os.getpid())
        child.kill()
        until(lambda: process_start(child.pid) == 0, seconds=5)  # a zombie
        child.wait()
        assert process_start(child.pid) == 0


def test_there_is_no_such_process():
    assert process_start(1 << 30) == 0
    assert has_ended(1 << 30, 1)
    assert has_ended(0, 1) and has_ended(-1, 1)  # which mean groups of processes to kill(2)


def test_a_process_has_ended_when_its_pid_is_gone_or_another_process():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        start = process_start(child.pid)
        assert not has_ended(child.pid, start)
        assert not has_ended(child.pid, 0)
        assert has_ended(child.pid, start + 1)
        child.kill()
        until(lambda: has_ended(child.pid, start), seconds=5)  # a zombie
        child.wait()
        assert has_ended(child.pid, start)


def test_where_no_file_can_be_opened_a_living_process_counts_as_alive():
    start, before = process_start(os.getpid()), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        told = has_ended(os.getpid(), start), has_ended(1 << 30, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert told == (False, True)
