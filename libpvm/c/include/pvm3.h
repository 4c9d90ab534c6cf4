/*
 * pvm3.h - the C interface of PVM 3
 *
 * Names, values, structure layouts and prototypes are those of PVM 3.4.6, so that programs written for it
 * compile and link unchanged. Link with -lpvm3; -lgpvm3 and -lfpvm3 name the same library.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef _PVM3_H_
#define _PVM3_H_

#include <sys/time.h>

/* ------------------------------------------------------------------ version of the interface ---- */

#define PVM_VER                 "3.4.6"
#define PVM_MAJOR_VERSION       3
#define PVM_MINOR_VERSION       4
#define PVM_PATCH_VERSION       6

/* ------------------------------------------------- encodings: pvm_initsend(), pvm_mkbuf() ---- */

#define PvmDataDefault          0       /* XDR: any host can read it */
#define PvmDataRaw              1       /* the sender's own format */
#define PvmDataInPlace          2       /* raw, read from the program's memory when sent */
#define PvmDataFoo              PvmDataDefault
#define PvmDataTrace            4       /* user-defined trace events */

/* ------------------------------------------------------------------- flags of pvm_spawn() ---- */

#define PvmTaskDefault          0       /* anywhere */
#define PvmTaskHost             1       /* `where` names a host */
#define PvmTaskArch             2       /* `where` names an architecture */
#define PvmTaskDebug            4       /* under a debugger */
#define PvmTaskTrace            8       /* with tracing on */
#define PvmMppFront             16      /* on the service node of a parallel machine */
#define PvmHostCompl            32      /* on the hosts that `where` does not name */
#define PvmNoSpawnParent        64      /* without a parent */

/* ------------------------------------------------------------------ events of pvm_notify() ---- */

#define PvmTaskExit             1       /* a task ended, however it ended */
#define PvmHostDelete           2       /* a host left or failed */
#define PvmHostAdd              3       /* hosts joined */
#define PvmRouteAdd             4       /* a direct route between tasks opened */
#define PvmRouteDelete          5       /* a direct route between tasks closed */

#define PvmNotifyCancel         256     /* or-ed to an event: withdraw the request */

/* -------------------------------------------------- options: pvm_setopt(), pvm_getopt() ---- */

#define PvmRoute                1       /* routing of messages, one of: */
#define PvmDontRoute            1       /*   through the daemons only */
#define PvmAllowDirect          2       /*   direct to other hosts, or if the peer asks */
#define PvmRouteDirect          3       /*   ask for direct routes */
#define PvmDebugMask            2       /* what libpvm logs about itself */
#define PvmAutoErr              3       /* report errors: 0 no, 1 print, 2 print and exit */
#define PvmOutputTid            4       /* where the output of children goes */
#define PvmOutputCode           5       /*   and under which tag */
#define PvmTraceTid             6       /* where trace events of children go */
#define PvmTraceCode            7       /*   and under which tag */
#define PvmTraceBuffer          8       /* buffer size for the children's events */
#define PvmTraceOptions         9       /* tracing mode of children, one of: */
#define PvmTraceFull            1       /*   every event */
#define PvmTraceTime            2       /*   time spent per function */
#define PvmTraceCount           3       /*   calls per function */
#define PvmFragSize             10      /* size of message fragments */
#define PvmResvTids             11      /* allow reserved tags and task ids */
#define PvmSelfOutputTid        12      /* 12 to 17: as 4 to 9, for this task itself */
#define PvmSelfOutputCode       13
#define PvmSelfTraceTid         14
#define PvmSelfTraceCode        15
#define PvmSelfTraceBuffer      16
#define PvmSelfTraceOptions     17
#define PvmShowTids             18      /* pvm_catchout() puts the task id before each line */
#define PvmPollType             19      /* how shared memory is waited for, one of: */
#define PvmPollConstant         1       /*   spinning */
#define PvmPollSleep            2       /*   spinning, then sleeping */
#define PvmPollTime             20      /* how long to spin */
#define PvmOutputContext        21      /* context of the children's output messages */
#define PvmTraceContext         22      /* context of the children's trace messages */
#define PvmSelfOutputContext    23      /* the same for this task itself */
#define PvmSelfTraceContext     24
#define PvmNoReset              25      /* this task survives the console's `reset` */

/* ----------------------------------------- whose mask: pvm_settmask(), pvm_gettmask() ---- */

#define PvmTaskSelf             0
#define PvmTaskChild            1

/* -------------------------------------------------------------------------------- contexts ---- */

#define PvmBaseContext          0

/* ---------------------------------------------- mailbox: pvm_putinfo(), pvm_recvinfo() ---- */

#define PvmMboxDefault          0       /* put: one entry, locked; recv: the first entry */
#define PvmMboxPersistent       1       /* the entry outlives the task that put it */
#define PvmMboxMultiInstance    2       /* a name may have several entries */
#define PvmMboxOverWritable     4       /* others may replace the entry */
#define PvmMboxFirstAvail       8       /* recv: the first entry at or after the index */
#define PvmMboxReadAndDelete    16      /* recv: take the entry out in the same step */
#define PvmMboxWaitForInfo      32      /* recv: wait until there is one */
#define PvmMboxMaxFlag          512     /* flags end here, the bits above hold a direct index */

#define PvmMboxDirectIndexShift 10
#define PvmMboxMaxDirectIndex   ((unsigned)1 << (31 - PvmMboxDirectIndexShift))

/* The direct index within a flags word. */
#define PvmMboxDirectIndexOf(flags_) \
	(((flags_) & ((PvmMboxMaxDirectIndex - 1) << PvmMboxDirectIndexShift)) >> PvmMboxDirectIndexShift)

/* A direct index as flag bits; 0, which means none, if it is too large. */
#if defined(EOF)
#define PvmMboxDirectIndex(index_) \
	((index_) < PvmMboxMaxDirectIndex \
		? ((index_) << PvmMboxDirectIndexShift) \
		: (fprintf(stderr, "PvmMboxDirectIndex: %d is not less than %d\n", \
			(int)(index_), (int)PvmMboxMaxDirectIndex), 0))
#else
#define PvmMboxDirectIndex(index_) \
	((index_) < PvmMboxMaxDirectIndex ? ((index_) << PvmMboxDirectIndexShift) : 0)
#endif

/* Names of the entries that the system itself keeps in the mailbox. */
#define PVMNORESETCLASS         "###_PVM_NO_RESET_###"
#define PVMHOSTERCLASS          "###_PVM_HOSTER_###"
#define PVMTASKERCLASS          "###_PVM_TASKER_###"
#define PVMTRACERCLASS          "###_PVM_TRACER_###"
#define PVMRMCLASS              "###_PVM_RM_###"

/* ----------------------------------------------------------------------------- error codes ---- */

#define PvmOk                   0       /* success */
#define PvmBadParam             (-2)    /* bad parameter */
#define PvmMismatch             (-3)    /* parameters of a group call differ, or barrier counts do */
#define PvmOverflow             (-4)    /* value does not fit the encoding */
#define PvmNoData               (-5)    /* read past the end of a buffer */
#define PvmNoHost               (-6)    /* no such host */
#define PvmNoFile               (-7)    /* no such executable */
#define PvmDenied               (-8)    /* permission denied */
#define PvmNoMem                (-10)   /* out of memory */
#define PvmBadMsg               (-12)   /* message cannot be decoded */
#define PvmSysErr               (-14)   /* the local daemon does not answer */
#define PvmNoBuf                (-15)   /* no current buffer */
#define PvmNoSuchBuf            (-16)   /* no such buffer */
#define PvmNullGroup            (-17)   /* group name is null */
#define PvmDupGroup             (-18)   /* already in the group */
#define PvmNoGroup              (-19)   /* no such group */
#define PvmNotInGroup           (-20)   /* not in the group */
#define PvmNoInst               (-21)   /* no such instance in the group */
#define PvmHostFail             (-22)   /* host failed */
#define PvmNoParent             (-23)   /* this task has no parent */
#define PvmNotImpl              (-24)   /* not implemented */
#define PvmDSysErr              (-25)   /* system error in the daemon */
#define PvmBadVersion           (-26)   /* protocol versions differ */
#define PvmOutOfRes             (-27)   /* out of resources */
#define PvmDupHost              (-28)   /* host is in the machine already */
#define PvmCantStart            (-29)   /* daemon could not be started */
#define PvmAlready              (-30)   /* already in progress */
#define PvmNoTask               (-31)   /* no such task */
#define PvmNotFound             (-32)   /* no such entry */
#define PvmExists               (-33)   /* entry exists already */
#define PvmHostrNMstr           (-34)   /* hoster is not on the master's host */
#define PvmParentNotSet         (-35)   /* spawned with PvmNoSpawnParent */
#define PvmIPLoopback           (-36)   /* the master's address is a loopback address */

/* PVM 3.3's names for two of them. */
#define PvmNoEntry              PvmNotFound
#define PvmDupEntry             PvmDenied

/* ---------------------- element types: pvm_psend(), pvm_precv(), pvm_reduce() and the like ---- */

#define PVM_STR                 0
#define PVM_BYTE                1
#define PVM_SHORT               2
#define PVM_INT                 3
#define PVM_FLOAT               4
#define PVM_CPLX                5       /* pairs of float */
#define PVM_DOUBLE              6
#define PVM_DCPLX               7       /* pairs of double */
#define PVM_LONG                8
#define PVM_USHORT              9
#define PVM_UINT                10
#define PVM_ULONG               11

/* ------------------------------------------------------------------------------ structures ---- */

/* A host of the machine: pvm_config(). */
struct pvmhostinfo {
	int hi_tid;             /* task id of its daemon */
	char *hi_name;
	char *hi_arch;
	int hi_speed;           /* relative, 1000 unless the hostfile says otherwise */
	int hi_dsig;            /* data signature: equal ones can exchange raw data */
};

/* A task of the machine: pvm_tasks(). */
struct pvmtaskinfo {
	int ti_tid;
	int ti_ptid;            /* parent */
	int ti_host;            /* its host's daemon */
	int ti_flag;            /* state bits */
	char *ti_a_out;         /* program, empty if it was not spawned */
	int ti_pid;
};

/* The header of a message: pvm_getminfo(), pvm_setminfo(). */
struct pvmminfo {
	int len;
	int ctx;                /* context */
	int tag;
	int wid;                /* wait id */
	int enc;                /* encoding */
	int crc;                /* checksum, if there is one */
	int src;                /* sender */
	int dst;                /* receiver */
};

/* A name in the mailbox and its entries: pvm_getmboxinfo(). */
struct pvmmboxinfo {
	char *mi_name;
	int mi_nentries;        /* length of the three arrays */
	int *mi_indices;
	int *mi_owners;
	int *mi_flags;
};

/* --------------------------------------------------------------------------- names of files ---- */

#ifdef NOTMPNAM
#define PVMTMPNAMFUN(x)         pvmtmpnam(x)
#define PVMTMPNAMLEN            128
#else
#define PVMTMPNAMFUN(x)         tmpnam(x)
#ifdef L_tmpnam
#define PVMTMPNAMLEN            L_tmpnam
#else
#define PVMTMPNAMLEN            128
#endif
#endif

/* ------------------------------------------------------------------------------- functions ---- */

/* Programs written for PVM declare functions of their own with it. */
#ifdef __ProtoGlarp__
#undef __ProtoGlarp__
#endif
#define __ProtoGlarp__(x)       x

#ifdef __cplusplus
extern "C" {
#endif

/* Parameter names begin with an underscore to stay clear of macros of the program. */

/* Enrolment, identity, end. */
int pvm_mytid(void);
int pvm_parent(void);
int pvm_siblings(int **_tids);
int pvm_exit(void);
char *pvm_version(void);

/* Errors. pvm_errno is the code of the last call that failed. */
extern int pvm_errno;
extern char *pvm_errlist[];     /* texts, index -code */
extern int pvm_nerr;            /* number of texts */
int pvm_perror(char *_prefix);
char *pvm_strerror(void);

/* Tasks. */
int pvm_spawn(char *_file, char **_argv, int _flags, char *_where, int _count, int *_tids);
int pvm_kill(int _tid);
int pvm_sendsig(int _tid, int _signum);
int pvm_pstat(int _tid);
int pvm_tasks(int _where, int *_ntask, struct pvmtaskinfo **_tasks);
int pvm_tidtohost(int _tid);
int pvm_notify(int _what, int _tag, int _count, int *_tids);
int pvm_export(char *_name);
int pvm_unexport(char *_name);
#if defined(EOF)
int pvm_catchout(FILE *_file);
#endif

/* Hosts. */
int pvm_start_pvmd(int _argc, char **_argv, int _block);
int pvm_addhosts(char **_names, int _count, int *_infos);
int pvm_delhosts(char **_names, int _count, int *_infos);
int pvm_config(int *_nhost, int *_narch, struct pvmhostinfo **_hosts);
int pvm_mstat(char *_host);
int pvm_archcode(char *_arch);
int pvm_hostsync(int _host, struct timeval *_clock, struct timeval *_delta);
int pvm_halt(void);

/* Options. */
int pvm_getopt(int _what);
int pvm_setopt(int _what, int _value);

/* Buffers. */
int pvm_initsend(int _encoding);
int pvm_mkbuf(int _encoding);
int pvm_freebuf(int _bufid);
int pvm_getsbuf(void);
int pvm_getrbuf(void);
int pvm_setsbuf(int _bufid);
int pvm_setrbuf(int _bufid);
int pvm_bufinfo(int _bufid, int *_bytes, int *_tag, int *_tid);
int pvm_getminfo(int _bufid, struct pvmminfo *_info);
int pvm_setminfo(int _bufid, struct pvmminfo *_info);

/* Packing: `count` elements, each `stride` elements after the one before. */
int pvm_packf(const char *_format, ...);
int pvm_pkbyte(char *_p, int _count, int _stride);
int pvm_pkcplx(float *_p, int _count, int _stride);
int pvm_pkdcplx(double *_p, int _count, int _stride);
int pvm_pkdouble(double *_p, int _count, int _stride);
int pvm_pkfloat(float *_p, int _count, int _stride);
int pvm_pkint(int *_p, int _count, int _stride);
int pvm_pklong(long *_p, int _count, int _stride);
int pvm_pkshort(short *_p, int _count, int _stride);
int pvm_pkuint(unsigned int *_p, int _count, int _stride);
int pvm_pkulong(unsigned long *_p, int _count, int _stride);
int pvm_pkushort(unsigned short *_p, int _count, int _stride);
int pvm_pkstr(char *_text);
int pvm_pkmesg(int _bufid);
int pvm_pkmesgbody(int _bufid);

/* Unpacking, call for call as it was packed. */
int pvm_unpackf(const char *_format, ...);
int pvm_upkbyte(char *_p, int _count, int _stride);
int pvm_upkcplx(float *_p, int _count, int _stride);
int pvm_upkdcplx(double *_p, int _count, int _stride);
int pvm_upkdouble(double *_p, int _count, int _stride);
int pvm_upkfloat(float *_p, int _count, int _stride);
int pvm_upkint(int *_p, int _count, int _stride);
int pvm_upklong(long *_p, int _count, int _stride);
int pvm_upkshort(short *_p, int _count, int _stride);
int pvm_upkuint(unsigned int *_p, int _count, int _stride);
int pvm_upkulong(unsigned long *_p, int _count, int _stride);
int pvm_upkushort(unsigned short *_p, int _count, int _stride);
int pvm_upkstr(char *_text);
int pvm_upkmesg(void);

/* Sending. */
int pvm_send(int _tid, int _tag);
int pvm_mcast(int *_tids, int _count, int _tag);
int pvm_psend(int _tid, int _tag, void *_data, int _count, int _type);

/* Receiving; -1 stands for any sender, any tag. */
int pvm_recv(int _tid, int _tag);
int pvm_nrecv(int _tid, int _tag);
int pvm_trecv(int _tid, int _tag, struct timeval *_timeout);
int pvm_probe(int _tid, int _tag);
int pvm_precv(int _tid, int _tag, void *_data, int _count, int _type, int *_rtid, int *_rtag, int *_rcount);
int (*pvm_recvf(int (*_match)(int _bufid, int _tid, int _tag)))(int _bufid, int _tid, int _tag);
int pvm_getfds(int **_fds);

/* Message handlers and contexts. */
int pvm_addmhf(int _src, int _tag, int _ctx, int (*_handler)(int _bufid));
int pvm_delmhf(int _id);
int pvm_newcontext(void);
int pvm_getcontext(void);
int pvm_setcontext(int _ctx);
int pvm_freecontext(int _ctx);

/* Mailbox. */
int pvm_putinfo(char *_name, int _bufid, int _flags);
int pvm_recvinfo(char *_name, int _index, int _flags);
int pvm_delinfo(char *_name, int _index, int _flags);
int pvm_getmboxinfo(char *_pattern, int *_nclasses, struct pvmmboxinfo **_classes);
int pvm_insert(char *_name, int _index, int _value);
int pvm_lookup(char *_name, int _index, int *_value);
int pvm_delete(char *_name, int _index);

/* Groups. */
int pvm_joingroup(char *_group);
int pvm_lvgroup(char *_group);
int pvm_freezegroup(char *_group, int _size);
int pvm_gsize(char *_group);
int pvm_gettid(char *_group, int _inst);
int pvm_getinst(char *_group, int _tid);
int pvm_barrier(char *_group, int _count);
int pvm_bcast(char *_group, int _tag);
int pvm_gather(void *_result, void *_data, int _count, int _type, int _tag, char *_group, int _root);
int pvm_scatter(void *_result, void *_data, int _count, int _type, int _tag, char *_group, int _root);
int pvm_reduce(void (*_func)(int *_type, void *_x, void *_y, int *_count, int *_info),
	void *_data, int _count, int _type, int _tag, char *_group, int _root);
void PvmMax(int *_type, void *_x, void *_y, int *_count, int *_info);
void PvmMin(int *_type, void *_x, void *_y, int *_count, int *_info);
void PvmSum(int *_type, void *_x, void *_y, int *_count, int *_info);
void PvmProduct(int *_type, void *_x, void *_y, int *_count, int *_info);

/* System services: hosters, taskers, tracers, resource managers. */
int pvm_reg_hoster(void);
int pvm_reg_tasker(void);
int pvm_reg_rm(struct pvmhostinfo **_hosts);
int pvm_reg_tracer(int trace_ctx, int trace_tag, int output_ctx, int output_tag, char *_mask,
	int _buffer, int _options);
int pvm_getnoresets(int **_tids, int *_count);
int pvm_tickle(int _nargs, int *_args, int *_nresults, int *_results);
char *pvmgetrsh(void);
char *pvmgettmp(void);
#ifdef NOTMPNAM
char *pvmtmpnam(char *_name);
#endif

#ifdef PVM33COMPAT
int pvm_getmwid(int _bufid);
int pvm_setmwid(int _bufid, int _wid);
#endif

#ifdef __cplusplus
}
#endif

#endif /* _PVM3_H_ */
