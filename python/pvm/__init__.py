"""The Parallel Virtual Machine for Python programs.

A program becomes a task of the virtual machine whose daemon runs on its host, spawns tasks on all hosts, and exchanges messages with
them: pickled objects, buffers such as numpy's arrays, and packed values for programs in C, Fortran or Rust.

    import pvm

    with pvm.enroll() as task:
        for tid in task.spawn("worker", count=4):
            task.send(tid, {"n": 1000})
        print(task.recv())
"""

from . import _pvm
from ._pvm import (
    ANY,
    Batch,
    BatchEvent,
    Group,
    Host,
    HostFailure,
    Message,
    Packer,
    PvmError,
    PvmAlready,
    PvmBadMsg,
    PvmBadParam,
    PvmBadVersion,
    PvmCantStart,
    PvmDSysErr,
    PvmDenied,
    PvmDupGroup,
    PvmDupHost,
    PvmExists,
    PvmHostFail,
    PvmHostrNMstr,
    PvmIPLoopback,
    PvmMismatch,
    PvmNoBuf,
    PvmNoData,
    PvmNoFile,
    PvmNoGroup,
    PvmNoHost,
    PvmNoInst,
    PvmNoMem,
    PvmNoParent,
    PvmNoSuchBuf,
    PvmNoTask,
    PvmNotFound,
    PvmNotImpl,
    PvmNotInGroup,
    PvmNullGroup,
    PvmOutOfRes,
    PvmOverflow,
    PvmParentNotSet,
    PvmSysErr,
    Refused,
    Spawned,
    TaskInfo,
    start_daemon,
    tid_text,
)
from .executor import Executor, WorkerLost
from .task import Task, enroll

__version__: str = _pvm.__version__

__all__ = [
    "ANY",
    "Batch",
    "BatchEvent",
    "Executor",
    "Group",
    "Host",
    "HostFailure",
    "Message",
    "Packer",
    "Refused",
    "Spawned",
    "Task",
    "TaskInfo",
    "WorkerLost",
    "enroll",
    "start_daemon",
    "tid_text",
    "PvmError",
    "PvmAlready",
    "PvmBadMsg",
    "PvmBadParam",
    "PvmBadVersion",
    "PvmCantStart",
    "PvmDSysErr",
    "PvmDenied",
    "PvmDupGroup",
    "PvmDupHost",
    "PvmExists",
    "PvmHostFail",
    "PvmHostrNMstr",
    "PvmIPLoopback",
    "PvmMismatch",
    "PvmNoBuf",
    "PvmNoData",
    "PvmNoFile",
    "PvmNoGroup",
    "PvmNoHost",
    "PvmNoInst",
    "PvmNoMem",
    "PvmNoParent",
    "PvmNoSuchBuf",
    "PvmNoTask",
    "PvmNotFound",
    "PvmNotImpl",
    "PvmNotInGroup",
    "PvmNullGroup",
    "PvmOutOfRes",
    "PvmOverflow",
    "PvmParentNotSet",
    "PvmSysErr",
]
