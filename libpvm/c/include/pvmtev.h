/*
 * pvmtev.h - trace events of PVM 3
 *
 * What a program needs to choose its trace events (pvm_settmask()) and what a tracer needs to read them. Names,
 * values and layouts are those of PVM 3.4.6. Include pvm3.h first.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef _PVMTEV_H_
#define _PVMTEV_H_

#include <sys/time.h>

/* Marks between the parts of a trace message. */
#define TEV_MARK_EVENT_BUFFER           (-1)
#define TEV_MARK_EVENT_BUFFER_END       (-2)
#define TEV_MARK_DATA_ID                (-3)
#define TEV_MARK_DATA_ID_END            (-4)
#define TEV_MARK_EVENT_DESC             (-5)
#define TEV_MARK_EVENT_DESC_END         (-6)
#define TEV_MARK_EVENT_RECORD           (-7)
#define TEV_MARK_EVENT_RECORD_END       (-8)
#define TEV_MARK_USER_EVENT_RECORD      (-9)
#define TEV_MARK_USER_EVENT_RECORD_END  (-10)

/* Destination and tag that send a PvmDataTrace buffer to the task's own tracer. */
#define PVM_TRACE_TID                   (-1111)
#define PVM_TRACE_CODE                  (-2222)

/* Types of the data in an event; TEV_DATA_ARRAY is or-ed to them when a count follows. */
#define TEV_DATA_NULL                   0
#define TEV_DATA_BYTE                   1
#define TEV_DATA_CPLX                   2
#define TEV_DATA_DCPLX                  3
#define TEV_DATA_DOUBLE                 4
#define TEV_DATA_FLOAT                  5
#define TEV_DATA_INT                    6
#define TEV_DATA_UINT                   7
#define TEV_DATA_LONG                   8
#define TEV_DATA_ULONG                  9
#define TEV_DATA_SHORT                  10
#define TEV_DATA_USHORT                 11
#define TEV_DATA_STRING                 12
#define TEV_DATA_STRUCT_START           13
#define TEV_DATA_STRUCT_END             14
#define TEV_DATA_DEFERRED               15

#define TEV_DATA_SCALAR                 0x00
#define TEV_DATA_ARRAY                  0x80

/* What a datum of an event is, counted from 0. */
enum {
	TEV_DID_AN, TEV_DID_AC, TEV_DID_AS, TEV_DID_BF, TEV_DID_CC, TEV_DID_CN, TEV_DID_CI, TEV_DID_CF, TEV_DID_CD,
	TEV_DID_CR, TEV_DID_CL, TEV_DID_CDA, TEV_DID_CDT, TEV_DID_CDX, TEV_DID_CDC, TEV_DID_CGI, TEV_DID_CRF,
	TEV_DID_CXC, TEV_DID_CXF, TEV_DID_CXN, TEV_DID_CXS, TEV_DID_ERI, TEV_DID_ERR, TEV_DID_FDS, TEV_DID_FP,
	TEV_DID_GN, TEV_DID_GI, TEV_DID_GT, TEV_DID_GS, TEV_DID_GBC, TEV_DID_HN, TEV_DID_HNL, TEV_DID_HNA,
	TEV_DID_HPT, TEV_DID_HA, TEV_DID_HSP, TEV_DID_HIS, TEV_DID_HCS, TEV_DID_HCU, TEV_DID_HDS, TEV_DID_HDU,
	TEV_DID_HS, TEV_DID_INB, TEV_DID_IMC, TEV_DID_IST, TEV_DID_MC, TEV_DID_MCX, TEV_DID_MB, TEV_DID_MNB,
	TEV_DID_SRC, TEV_DID_DST, TEV_DID_MDL, TEV_DID_MTS, TEV_DID_MTU, TEV_DID_MRF, TEV_DID_MRB, TEV_DID_MSB,
	TEV_DID_ME, TEV_DID_MHI, TEV_DID_AST, TEV_DID_AMC, TEV_DID_AML, TEV_DID_NE, TEV_DID_NMC, TEV_DID_NCT,
	TEV_DID_NTL, TEV_DID_NH, TEV_DID_NA, TEV_DID_OPT, TEV_DID_OPV, TEV_DID_OS, TEV_DID_PDA, TEV_DID_PDT,
	TEV_DID_PC, TEV_DID_PSD, TEV_DID_PSG, TEV_DID_PF, TEV_DID_PRF, TEV_DID_RST, TEV_DID_RMC, TEV_DID_RCX,
	TEV_DID_SN, TEV_DID_SE, TEV_DID_SF, TEV_DID_SW, TEV_DID_SC, TEV_DID_STL, TEV_DID_SIB, TEV_DID_TID,
	TEV_DID_PT, TEV_DID_MT, TEV_DID_TF, TEV_DID_TN, TEV_DID_PID, TEV_DID_TT, TEV_DID_TW, TEV_DID_TIS,
	TEV_DID_TNT, TEV_DID_TST, TEV_DID_TUS, TEV_DID_TUU, TEV_DID_TSS, TEV_DID_TSU, TEV_DID_TES, TEV_DID_TA,
	TEV_DID_TR, TEV_DID_TS, TEV_DID_TU, TEV_DID_TGS, TEV_DID_TGU, TEV_DID_TMW, TEV_DID_TM, TEV_DID_TRC,
	TEV_DID_TRT, TEV_DID_TRX, TEV_DID_TRO, TEV_DID_TRM, TEV_DID_TRB, TEV_DID_TRL, TEV_DID_VER, TEV_DID_VCT,
	TEV_DID_VID, TEV_DID_WID
};

#define TEV_DID_FIRST                   0
#define TEV_DID_MAX                     122

/* A datum's short name and its description. */
struct Pvmtevdid {
	char *did;
	char *desc;
};

/* The events, counted from 0: mostly one per function of libpvm. */
enum {
	TEV_ADDHOSTS, TEV_BARRIER, TEV_BCAST, TEV_BUFINFO, TEV_CONFIG, TEV_DELETE, TEV_DELHOSTS, TEV_EXIT,
	TEV_FREEBUF, TEV_GETFDS, TEV_GETINST, TEV_GETOPT, TEV_GETRBUF, TEV_GETSBUF, TEV_GETTID, TEV_GSIZE,
	TEV_HALT, TEV_INITSEND, TEV_INSERT, TEV_JOINGROUP, TEV_KILL, TEV_LOOKUP, TEV_LVGROUP, TEV_MCAST, TEV_MKBUF,
	TEV_MSTAT, TEV_MYTID, TEV_NOTIFY, TEV_NRECV, TEV_PARENT, TEV_PERROR, TEV_PKBYTE, TEV_PKCPLX, TEV_PKDCPLX,
	TEV_PKDOUBLE, TEV_PKFLOAT, TEV_PKINT, TEV_PKUINT, TEV_PKLONG, TEV_PKULONG, TEV_PKSHORT, TEV_PKUSHORT,
	TEV_PKSTR, TEV_PROBE, TEV_PSTAT, TEV_RECV, TEV_RECVF, TEV_SEND, TEV_SENDSIG, TEV_SETOPT, TEV_SETRBUF,
	TEV_SETSBUF, TEV_SPAWN, TEV_START_PVMD, TEV_TASKS, TEV_TICKLE, TEV_TIDTOHOST, TEV_TRECV, TEV_UPKBYTE,
	TEV_UPKCPLX, TEV_UPKDCPLX, TEV_UPKDOUBLE, TEV_UPKFLOAT, TEV_UPKINT, TEV_UPKUINT, TEV_UPKLONG, TEV_UPKULONG,
	TEV_UPKSHORT, TEV_UPKUSHORT, TEV_UPKSTR, TEV_VERSION, TEV_REG_HOSTER, TEV_REG_RM, TEV_REG_TASKER,
	TEV_REG_TRACER, TEV_NEWTASK, TEV_ENDTASK, TEV_SPNTASK, TEV_ARCHCODE, TEV_CATCHOUT, TEV_GETMWID,
	TEV_GETTMASK, TEV_HOSTSYNC, TEV_PACKF, TEV_PRECV, TEV_PSEND, TEV_REDUCE, TEV_SETMWID, TEV_SETTMASK,
	TEV_UNPACKF, TEV_GATHER, TEV_SCATTER, TEV_PUTINFO, TEV_GETINFO, TEV_DELINFO, TEV_GETMBOXINFO,
	TEV_NEWCONTEXT, TEV_FREECONTEXT, TEV_SETCONTEXT, TEV_GETCONTEXT, TEV_SIBLINGS, TEV_GETMINFO, TEV_SETMINFO,
	TEV_ADDMHF, TEV_DELMHF, TEV_MHF_INVOKE, TEV_TIMING, TEV_PROFILING, TEV_USER_DEFINED
};

#define TEV_FIRST                       0
#define TEV_MAX                         108

#define TEV_EVENT_ENTRY                 0x4000  /* or-ed to an event: the function was entered */
#define TEV_EVENT_EXIT                  0x8000  /* the function returned */

/* What libpvm keeps of an event. */
struct Pvmtevinfo {
	char *name;
	int desc_status;        /* whether its description was sent */
	struct timeval mark;    /* when it began */
	struct timeval total;   /* time spent in it */
	int count;              /* how often it happened */
};

/* Which events a task traces: text, four events in each character above '@', ended by a null. */
#define TEV_MASK_LENGTH                 36

typedef char Pvmtmask[TEV_MASK_LENGTH];

#define TEV_MASK_SET(mask_, event_)     ((mask_)[(event_) / 4] |= (1 << ((event_) & 3)))
#define TEV_MASK_UNSET(mask_, event_)   ((mask_)[(event_) / 4] &= ~(1 << ((event_) & 3)))
#define TEV_MASK_CHECK(mask_, event_)   ((mask_)[(event_) / 4] & (1 << ((event_) & 3)))
#define TEV_MASK_INIT(mask_) \
	{ \
		int tev_mask_i_; \
		for (tev_mask_i_ = 0; tev_mask_i_ < TEV_MASK_LENGTH - 1; tev_mask_i_++) \
			(mask_)[tev_mask_i_] = '@'; \
		(mask_)[TEV_MASK_LENGTH - 1] = 0; \
	}

/* Where a task's trace and output go. */
struct Pvmtracer {
	int trctid;             /* trace: destination, context, tag */
	int trcctx;
	int trctag;
	int outtid;             /* output: destination, context, tag */
	int outctx;
	int outtag;
	int trcbuf;             /* trace buffer size */
	int trcopt;             /* trace mode */
	Pvmtmask tmask;
};

#ifdef __cplusplus
extern "C" {
#endif

int pvm_gettmask(int _who, Pvmtmask _mask);
int pvm_settmask(int _who, Pvmtmask _mask);

#ifdef __cplusplus
}
#endif

#endif /* _PVMTEV_H_ */
