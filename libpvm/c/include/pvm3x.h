/*
 * pvm3x.h - what this implementation has beyond PVM 3.4
 *
 * Include it behind pvm3.h. A daemon of the original PVM answers these with PvmNotImpl.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef _PVM3X_H_
#define _PVM3X_H_

#include <stddef.h>

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

/* Chooses the policy that places what this task spawns from now on; NULL or "" for the virtual machine's. Policies: "active-pulling",
 * "round-robin", "proportional", "lightly-loaded", "local", "sender-initiated", "receiver-initiated", "bidding", "up-down",
 * "hierarchical", "graph-theoretic", "coallocation". */
int pvm_setpolicy(const char *_name);

/* Two tasks of a spawn, counted from 0, and how much they send to each other, in any unit. */
struct pvmtraffic {
	int tr_a;
	int tr_b;
	long long tr_amount;
};

/* Tells the policy "graph-theoretic" how much the tasks of the next pvm_spawn() talk to each other; no pairs: it is not known. Without
 * this call the policy goes by what was counted when the program was last spawned with as many tasks. */
int pvm_settraffic(int _count, const struct pvmtraffic *_pairs);

/* Names this task's team, up to 64 bytes: tasks that want to run at the same time on hosts that have too few processors for all.
 * What it spawns from now on is of that team, too. */
int pvm_jointeam(const char *_name);

/* ------------------------------------------------------------------------ tasks that move ---- */

/*
 * From now on this task can be moved to another host. The program is started again there, with the same arguments, and is the task from then
 * on: its id, its parent, its groups and the messages for it are the same. This process ends.
 *
 * _save packs what the program needs to go on, into the active send buffer. _restore unpacks it from the active receive buffer: this call
 * calls it if the process goes on with a task that has moved, and then returns 1, else 0. Both return less than 0 if they fail: a task that
 * cannot be saved stays; what _restore returns this call returns.
 *
 * A task moves in pvm_recv, pvm_nrecv, pvm_trecv, pvm_precv and pvm_probe, before they take a message or while they wait, and in
 * pvm_maymove; not in message handlers and group calls. The library takes along options, the context, and messages that were not received.
 * Other message buffers, message handlers, the function of pvm_recvf and the stream of pvm_catchout the program sets up again.
 */
int pvm_migratable(int (*_save)(void), int (*_restore)(void));

/* Moves, if this task is to be moved and can be now: for programs that compute for long without receiving. */
int pvm_maymove(void);

/* Moves a task to a host (NULL or "": the one with most room), and returns the host's id when the task lives there. A task that moves itself
 * does so in the next call in which it can; the result is 0 then if no host was named. */
int pvm_move(int _tid, const char *_host);

/* ------------------------------------------------------------------------------ jobs of queues ---- */

/*
 * Structures about jobs begin with their size. A later library adds members at their ends only, so that programs run as they were compiled.
 */

/*
 * What is submitted. pvm_initjob() sets the defaults; all but js_program may stay as they are. Texts and arrays are the program's, and
 * need not outlive the call. An empty text is as good as NULL.
 */
struct pvmjobspec {
	size_t js_size;                 /* set by pvm_initjob() */
	const char *js_name;            /* for people; NULL: that of the program */
	const char *js_user;            /* whose share of the machine it counts to; NULL: the login name */
	const char *js_queue;           /* NULL: the first one that takes the job */
	const char *js_program;         /* a path, or a name to be found on the search path of hosts */
	char *const *js_argv;           /* arguments without the program's name, then NULL; NULL: none */
	char *const *js_env;            /* NAME=value for its environment, then NULL; NULL: nothing */
	const char *js_dir;             /* folder that tasks run in; NULL: the current one */
	const char *js_output;          /* file for output, with %j, %t, %n for job, task, name; NULL: none */
	int js_first;                   /* number of the first task of an array; 0 */
	int js_count;                   /* tasks of an array; 1 */
	int js_atonce;                  /* of them at a time at most; 0: any number */
	int js_width;                   /* not 0: no array, but tasks that start at once, this many */
	int js_slots;                   /* slots that each task fills; 1 */
	int js_restarts;                /* how often a task that fails is started again; 0 */
	int js_held;                    /* not 0: starts nothing before pvm_releasejobs() */
	int js_nafter;                  /* number of jobs in js_after; 0 */
	const long long *js_after;      /* jobs that must have ended well before */
	char *const *js_hosts;          /* hosts it may run on (* stands for any text), then NULL; NULL: all */
	long long js_time;              /* longest run time of a task, milliseconds; 0: that of the queue */
	long long js_memory;            /* most memory of each process, bytes; 0: that of the queue */
	long long js_bandwidth;         /* with js_width: bits per second between two tasks; 0: none */
	long long js_expect;            /* run time in the fastest cluster, milliseconds; 0: that of earlier runs */
	long long js_communication;     /* added when it spans clusters on free links, milliseconds; 0: likewise */
};

/* Values of ji_state. A job has ended from PvmJobDone on. */
#define PvmJobHeld              1       /* its user holds it */
#define PvmJobWaiting           2
#define PvmJobRunning           3       /* some of its tasks run */
#define PvmJobLent              4       /* another virtual machine has it */
#define PvmJobDone              5       /* all its tasks have ended well */
#define PvmJobFailed            6       /* some of its tasks have failed */
#define PvmJobCancelled         7

/* A job. Points in time are milliseconds since 1970, and 0 if there is none yet. No text is NULL. */
struct pvmjobinfo {
	size_t ji_size;                 /* of what the library has filled in */
	struct pvmjobinfo *ji_next;     /* the next one, or NULL */
	long long ji_id;                /* its number, greater than 0 */
	char *ji_name;
	char *ji_user;
	char *ji_queue;
	int ji_state;                   /* PvmJobHeld, ... */
	int ji_status;                  /* of the last task that failed, as from wait() */
	char *ji_statename;             /* "held", "waiting", "running", "done", "failed", "cancelled" */
	char *ji_reason;                /* what it waits for, or why it has failed; may be empty */
	int ji_first;                   /* as in struct pvmjobspec, to ji_slots */
	int ji_count;                   /* of any kind of job: its tasks */
	int ji_atonce;
	int ji_width;
	int ji_slots;
	int ji_waiting;                 /* how many tasks wait, */
	int ji_running;                 /* run, or were given to a host, */
	int ji_done;                    /* have ended well, */
	int ji_failed;                  /* have failed, */
	int ji_cancelled;               /* were cancelled */
	int ji_restarts;                /* starts beyond the first of a task */
	char **ji_argv;                 /* the program and its arguments, then NULL */
	char *ji_dir;
	char **ji_hosts;                /* hosts on which tasks run or have run, then NULL */
	long long ji_submitted;
	long long ji_started;           /* its first task */
	long long ji_ended;
	long long ji_cpu;               /* CPU time of tasks that have ended, microseconds */
	long long ji_memory;            /* most memory that one of them has used, bytes */
	long long ji_predicted;         /* end of a parallel program by the model of co-allocation; 0: not known */
};

/* A queue. */
struct pvmqueueinfo {
	size_t qi_size;                 /* of what the library has filled in */
	struct pvmqueueinfo *qi_next;   /* the next one, or NULL */
	char *qi_name;
	int qi_priority;
	int qi_waiting;                 /* jobs that wait */
	int qi_running;                 /* slots in use */
	char **qi_hosts;                /* its hosts (* stands for any text), then NULL; none: all */
	char **qi_limits;               /* such as max-time=3600s, then NULL */
};

/* Sets the defaults: one task that fills one slot. The size is sizeof(struct pvmjobspec). */
int pvm_initjob(struct pvmjobspec *_job, size_t _size);

/* Submits a job. Returns its number when it is on disk, or an error code. */
long long pvm_submitjob(const struct pvmjobspec *_job);

/*
 * Lists of jobs and queues. Each call returns how many there are, and sets the pointer, if it is not NULL, to the first; NULL if there is
 * none or the call fails. The list is the library's, and stands until the next call of the same function with such a pointer.
 */
int pvm_jobs(const long long *_ids, int _count, struct pvmjobinfo **_first);    /* none: all that have not ended */
int pvm_jobhistory(int _most, struct pvmjobinfo **_first);                      /* those that have, the latest first */
int pvm_waitjobs(const long long *_ids, int _count, struct pvmjobinfo **_first); /* returns when all have ended */
int pvm_queues(struct pvmqueueinfo **_first);

/*
 * Changes of jobs. Each call returns for how many jobs it was not refused, and sets, if the pointer is not NULL, the result for each of
 * them: 1, or 0 if the job was like this before, or PvmDenied.
 */
int pvm_canceljobs(const long long *_ids, int _count, int *_results);
int pvm_holdjobs(const long long *_ids, int _count, int *_results);
int pvm_releasejobs(const long long *_ids, int _count, int *_results);

/*
 * Why the last of these calls that this thread has made was refused, in words: for changes of several jobs a line for each; empty if it
 * was not. Writes _size bytes at most, the final NUL included, and returns the length of the whole text, as snprintf() does.
 */
int pvm_jobreason(char *_text, int _size);

#ifdef __cplusplus
}
#endif

#endif /* _PVM3X_H_ */
