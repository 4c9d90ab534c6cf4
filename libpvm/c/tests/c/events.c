/*
 * PVM's trace events: what a traced child tells of its calls, datum by datum. Times, addresses, buffer ids and what
 * daemons tell are left out.
 */
#include "show.h"
#include <pvmtev.h>

enum { TRACE = 77, WORK = 1, EVENTS = 3 * 0x4000, FIELDS = 20 };

static struct { int n, did[FIELDS], type[FIELDS]; } layout[EVENTS];
static char program[4096];
static int me, kid, done;
static char *kids_arguments[] = {"child", NULL};

/* The events of the child itself, which is its own tracer's child. */
static int child(void)
{
	int n = 5, tid, *tids, parent;
	double d[4] = {1, 2, 3, 4};
	char text[20];
	struct pvmhostinfo *hosts;
	struct pvmtaskinfo *tasks;
	struct timeval brief = {0, 1000};

	pvm_mytid();
	parent = pvm_parent();
	pvm_initsend(PvmDataRaw);
	pvm_pkint(&n, 1, 1);
	pvm_pkdouble(d, 2, 2);
	pvm_pkstr("some text");
	pvm_send(parent, WORK);
	pvm_mcast(&parent, 1, WORK);
	pvm_recv(parent, WORK);
	pvm_upkint(&n, 1, 1);
	pvm_upkstr(text);
	pvm_nrecv(-1, 99);
	pvm_trecv(-1, 99, &brief);
	pvm_probe(-1, WORK);
	pvm_bufinfo(pvm_getrbuf(), &n, NULL, &tid);
	pvm_psend(pvm_mytid(), 3, d, 2, PVM_DOUBLE);
	pvm_precv(-1, 3, d, 4, PVM_DOUBLE, NULL, NULL, NULL);
	pvm_freebuf(pvm_mkbuf(PvmDataDefault));
	pvm_setsbuf(pvm_getsbuf());
	pvm_setrbuf(0);
	pvm_config(&n, NULL, &hosts);
	pvm_tasks(pvm_mytid(), &n, &tasks);
	pvm_mstat(".");
	pvm_pstat(parent);
	pvm_notify(PvmTaskExit, 9, 1, &parent);
	pvm_setopt(PvmResvTids, pvm_getopt(PvmResvTids));
	pvm_setcontext(pvm_getcontext());
	pvm_sendsig(pvm_mytid(), 0);
	pvm_siblings(&tids);
	pvm_putinfo("events", pvm_getsbuf(), 0);
	pvm_recvinfo("events", 0, 0);
	pvm_delinfo("events", 0, 0);
	pvm_kill(7);
	pvm_spawn("/bin/no such program", NULL, PvmTaskHost, ".", 1, &n);
	pvm_exit();
	return 0;
}

/* The next mark; 0 at the end of the message. */
static int next_mark(void)
{
	int mark = 0;

	pvm_upkint(&mark, 1, 1);
	return mark;
}

/* Whether a number means something different each time. */
static int changes(int did)
{
	return did == TEV_DID_TS || did == TEV_DID_TU || did == TEV_DID_PDA || did == TEV_DID_MB || did == TEV_DID_MSB
		|| did == TEV_DID_MRB || did == TEV_DID_CR || did == TEV_DID_CD;
}

static void show_number(int did, int n)
{
	/* Microseconds of a second are 0 once in a million times. */
	if (changes(did))
		printf(n > 0 || did == TEV_DID_PDA || (did == TEV_DID_TU && n == 0) ? " +" : " %d", n);
	else if (n == me)
		printf(" parent");
	else if (n == kid)
		printf(" child");
	else
		printf(" %d", n);
}

static void datum(int did, int type)
{
	static char text[4096];
	int n = type & TEV_DATA_ARRAY ? number() : 1;
	long l;

	printf("  %d:%x", did, (unsigned)type);
	if (type & TEV_DATA_ARRAY)
		printf(" (%d)", n);
	for (; n > 0; n--)
		switch (type & ~TEV_DATA_ARRAY) {
		case TEV_DATA_STRING:
			pvm_upkstr(text);
			printf(" '%s'", text);
			break;
		case TEV_DATA_LONG:
			pvm_upklong(&l, 1, 1);
			show_number(did, (int)l);
			break;
		default:
			show_number(did, number());
		}
}

/* One trace message of the child. */
static void message(void)
{
	int mark, event, i;
	char name[100];

	while ((mark = next_mark()) == TEV_MARK_EVENT_BUFFER || mark == TEV_MARK_EVENT_DESC || mark == TEV_MARK_EVENT_RECORD) {
		if (mark == TEV_MARK_EVENT_BUFFER) {
			printf("buffer\n");
			continue;
		}
		event = number();
		printf("%d %x", mark, (unsigned)event);
		if (mark == TEV_MARK_EVENT_DESC) {
			pvm_upkstr(name);
			printf(" %s", name);
			for (i = 0; (layout[event].did[i] = number()) >= 0; i++) {
				layout[event].type[i] = number();
				datum(layout[event].did[i], layout[event].type[i]);
			}
			layout[event].n = i;
			mark = layout[event].did[i];
		} else {
			for (i = 0; i < layout[event].n; i++)
				datum(layout[event].did[i], layout[event].type[i]);
			mark = next_mark();
		}
		printf("  %d\n", mark);
		done |= event == (TEV_EXIT | TEV_EVENT_ENTRY) || event == TEV_TIMING || event == TEV_PROFILING;
	}
	if (mark == TEV_MARK_EVENT_BUFFER_END)
		printf("buffer end\n");
}

static void trace(int buffer, int options)
{
	int source, length, n = 5;

	SHOW(pvm_setopt(PvmTraceBuffer, buffer) >= 0);
	SHOW(pvm_setopt(PvmTraceOptions, options) >= 0);
	SHOW(pvm_spawn(program, kids_arguments, PvmTaskDefault, NULL, 1, &kid));
	if (kid < 0)
		exit(1);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	pvm_pkstr("an answer");
	pvm_send(kid, WORK);
	for (done = 0; !done;) {
		if (pvm_recv(-1, TRACE) < 0)
			exit(1);
		pvm_bufinfo(pvm_getrbuf(), &length, NULL, &source);
		if (source == kid)
			message();
	}
	pvm_notify(PvmTaskExit, 4, 1, &kid);
	SHOW(pvm_recv(-1, 4) > 0);
	while (pvm_nrecv(-1, TRACE) > 0)
		;
}

int main(int argc, char **argv)
{
	Pvmtmask mask;
	int i;

	if (argc > 1)
		return child();
	begin();
	strcpy(program, argv[0]);
	me = pvm_mytid();
	/* A trace message ends where nothing more can be unpacked. */
	pvm_setopt(PvmAutoErr, 0);
	SHOW(pvm_setopt(PvmTraceTid, me));
	SHOW(pvm_setopt(PvmTraceCode, TRACE));
	SHOW(pvm_setopt(PvmTraceContext, pvm_getcontext()));
	TEV_MASK_INIT(mask);
	/* With the original the library's own handlers count as the program's. */
	for (i = 0; i <= TEV_MAX; i++)
		if (i != TEV_MHF_INVOKE)
			TEV_MASK_SET(mask, i);
	SHOW(pvm_settmask(PvmTaskChild, mask));
	trace(0, PvmTraceFull);
	trace(1000, PvmTraceFull);
	/* What is not in the mask is not told. */
	TEV_MASK_INIT(mask);
	TEV_MASK_SET(mask, TEV_SEND);
	TEV_MASK_SET(mask, TEV_EXIT);
	SHOW(pvm_settmask(PvmTaskChild, mask));
	trace(0, PvmTraceFull);
	SHOW(pvm_exit());
	return 0;
}
