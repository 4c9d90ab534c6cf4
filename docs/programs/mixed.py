import array
import sys

import pvm

with pvm.enroll() as task:
    # The program of the argument is written in C.
    [worker] = task.spawn(sys.argv[1])
    values = array.array("d", [0.5, 1.5, 2.5])
    task.send_packed(worker, pvm.Packer().int(len(values)).double(values).str("sum"), tag=4)
    answer = task.recv_message(worker, tag=5)
    print(answer.str(), answer.double())
