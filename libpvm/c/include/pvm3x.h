/*
 * pvm3x.h - what this implementation has beyond PVM 3.4
 *
 * Include it behind pvm3.h. A daemon of the original PVM answers these with PvmNotImpl.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef _PVM3X_H_
#define _PVM3X_H_

#ifdef __cplusplus
extern "C" {
#endif

/* A flag of pvm_spawn(): the call returns a batch id at once, the tasks start as there is room for them. */
#define PvmTaskQueued           128

/* A flag of pvm_spawn(): the tasks get SIGTERM when the host of the task that spawns them is lost. Without it they go on. */
#define PvmTaskTied             256

/* Options of pvm_setopt() for batches queued from now on. */
#define PvmBatchCode            1001    /* tag of the notices; negative (the default) for none */
#define PvmBatchRestarts        1002    /* how often a task that fails is started again */

/*
 * A batch whose parent does not receive its notices starts no more tasks from 1024 of them on, until half have been taken.
 *
 * What a notice says: five integers, packed with the default encoding, from the daemon.
 *
 *   what             batch    task's number   task id, or 0        value
 *   PvmBatchStart    id       0, 1, ...       of the task          0
 *   PvmBatchEnd      id       0, 1, ...       of the task          status as from wait(), 0 if all is well
 *   PvmBatchAgain    id       0, 1, ...       it had               status or error code; it will be started again
 *   PvmBatchFail     id       0, 1, ...       it had               error code; it will not
 *   PvmBatchDone     id       tasks done      tasks failed         tasks cancelled; nothing follows
 */
#define PvmBatchStart           1
#define PvmBatchEnd             2
#define PvmBatchAgain           3
#define PvmBatchFail            4
#define PvmBatchDone            5

/* Cancels a queued batch: what waits is not started any more, what runs gets SIGTERM. */
int pvm_cancelbatch(int _batch);

/* Chooses the policy ("active-pulling", "round-robin", "proportional") that places what this task spawns from now on; NULL or
 * "" for the virtual machine's. */
int pvm_setpolicy(const char *_name);

/* Names this task's team, up to 64 bytes: tasks that want to run at the same time on hosts that have too few processors for all.
 * What it spawns from now on is of that team, too. */
int pvm_jointeam(const char *_name);

#ifdef __cplusplus
}
#endif

#endif /* _PVM3X_H_ */
