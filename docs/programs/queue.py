import sys

import pvm

NOTICE = 7

with pvm.enroll() as task:
    task.queue(sys.argv[2], sys.argv[3:], count=int(sys.argv[1]), notices=NOTICE, restarts=2)
    while True:
        event = task.recv_message(tag=NOTICE).batch_event()
        if event.kind == "again":
            print(f"task {event.number} is started again")
        elif event.kind == "failed":
            print(f"task {event.number} has failed")
        elif event.totals is not None:
            done, failed, cancelled = event.totals
            print(f"{done} done, {failed} failed, {cancelled} cancelled")
            break
