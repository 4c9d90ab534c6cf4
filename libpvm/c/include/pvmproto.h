/*
 * pvmproto.h - tags of the messages that tasks exchange with daemons and services.
 *
 * Programs need it that register as resource manager, hoster or tasker (pvm_reg_rm, pvm_reg_hoster, pvm_reg_tasker).
 * The bodies are those of PVM 3.4.
 */
#ifndef _PVMPROTO_H_
#define _PVMPROTO_H_

#define TDPROTOCOL 1318 /* task and daemon speak this version */

/* Contexts of the system's own messages. */
#define SYSCTX_FIRST 0x7ffff
#define SYSCTX_TC (SYSCTX_FIRST - 0) /* between libraries */
#define SYSCTX_TM (SYSCTX_FIRST - 1) /* task and daemon */
#define SYSCTX_SG (SYSCTX_FIRST - 2)
#define SYSCTX_DG (SYSCTX_FIRST - 3)
#define SYSCTX_LAST (SYSCTX_FIRST - 9)

/* Task to daemon, with an answer of the same tag unless the comment denies it. */
#define TM_FIRST ((int)0x80010001)
#define TM_CONNECT (TM_FIRST + 0)
#define TM_CONN2 (TM_FIRST + 1)
#define TM_EXIT (TM_FIRST + 2)
#define TM_ADDHOST (TM_FIRST + 3)
#define TM_DELHOST (TM_FIRST + 4)
#define TM_CONFIG (TM_FIRST + 5)
#define TM_MSTAT (TM_FIRST + 6)
#define TM_HALT (TM_FIRST + 7) /* no answer */
#define TM_TICKLE (TM_FIRST + 8)
#define TM_SPAWN (TM_FIRST + 9)
#define TM_PSTAT (TM_FIRST + 10)
#define TM_SENDSIG (TM_FIRST + 11)
#define TM_TASK (TM_FIRST + 12)
#define TM_MCA (TM_FIRST + 13)	  /* no answer */
#define TM_NOTIFY (TM_FIRST + 14) /* no answer */
#define TM_DB (TM_FIRST + 15)
#define TM_SCHED (TM_FIRST + 16)
#define TM_TASKER (TM_FIRST + 17)
#define TM_HOSTER (TM_FIRST + 18)
#define TM_TRACER (TM_FIRST + 19)
#define TM_HOSTSYNC (TM_FIRST + 20)
#define TM_SETOPT (TM_FIRST + 21)
#define TM_GETOPT (TM_FIRST + 22)
#define TM_CONTEXT (TM_FIRST + 23)
#define TM_SHMCONN (TM_FIRST + 24)
#define TM_LAST TM_SHMCONN

/* Library to library. */
#define TC_FIRST ((int)0x80030001)
#define TC_CONREQ (TC_FIRST + 0)
#define TC_CONACK (TC_FIRST + 1)
#define TC_TASKEXIT (TC_FIRST + 2)
#define TC_NOOP (TC_FIRST + 3)
#define TC_OUTPUT (TC_FIRST + 4)
#define TC_SETTRACE (TC_FIRST + 5)
#define TC_SETTMASK (TC_FIRST + 6)
#define TC_SETTRCBUF (TC_FIRST + 7)
#define TC_SETTRCOPT (TC_FIRST + 8)
#define TC_SHMAT (TC_FIRST + 9)
#define TC_OUTPUTX (TC_FIRST + 10)
#define TC_SIBLINGS (TC_FIRST + 11)
#define TC_LAST TC_SIBLINGS

/* Services: t a task, R the resource manager, H the hoster, T the tasker, d a daemon. */
#define SM_FIRST ((int)0x80040001)
#define SM_SPAWN (SM_FIRST + 0)	    /* t and R, as TM_SPAWN */
#define SM_EXEC (SM_FIRST + 1)	    /* R to d */
#define SM_EXECACK (SM_FIRST + 2)   /* d to R */
#define SM_TASK (SM_FIRST + 3)	    /* t and R, as TM_TASK */
#define SM_CONFIG (SM_FIRST + 4)    /* t and R, as TM_CONFIG */
#define SM_ADDHOST (SM_FIRST + 5)   /* t and R, as TM_ADDHOST */
#define SM_DELHOST (SM_FIRST + 6)   /* t and R, as TM_DELHOST */
#define SM_ADD (SM_FIRST + 7)	    /* R to d, as TM_ADDHOST */
#define SM_ADDACK (SM_FIRST + 8)    /* d to R */
#define SM_NOTIFY (SM_FIRST + 9)    /* t to R, as TM_NOTIFY */
#define SM_TASKX (SM_FIRST + 10)    /* d to R and T to d: a task has ended */
#define SM_HOSTX (SM_FIRST + 11)    /* d to R: a host has gone */
#define SM_HANDOFF (SM_FIRST + 12)  /* R to d: another manages from now on */
#define SM_SCHED (SM_FIRST + 13)    /* t and R, as TM_SCHED */
#define SM_STHOST (SM_FIRST + 14)   /* d to H: start daemons */
#define SM_STHOSTACK (SM_FIRST + 15) /* H to d */
#define SM_STTASK (SM_FIRST + 16)   /* d to T: start a task */
#define SM_LAST SM_STTASK

/* What a TM_DB request is about. */
#define TMDB_PUT 1
#define TMDB_REMOVE 2
#define TMDB_GET 3
#define TMDB_NAMES 4
#define TMDB_RESET 5

#endif
