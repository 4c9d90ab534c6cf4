/*
 * A resource manager that answers in the daemon's place: a client, told at its enrolment who manages, asks it for hosts and
 * tasks, and the manager has the daemon start what the client spawns.
 */
#include "show.h"
#include <pvmproto.h>

#define DAEMON ((int)0x80000000)

enum { REPORT = 1, HELLO = 2, GONE = 7, WORKERS = 2 };

static char program[4096];
static int asked;

/* The answer to the message just received, which is to be packed. */
static void begin_answer(void)
{
	pvm_initsend(PvmDataDefault);
}

static void end_answer(int tid, int tag, int context, int wait_id)
{
	struct pvmminfo info;
	int old = pvm_setcontext(context);

	pvm_getminfo(pvm_getsbuf(), &info);
	info.wid = wait_id;
	pvm_setminfo(pvm_getsbuf(), &info);
	pvm_send(tid, tag);
	pvm_setcontext(old);
}

static void pack_number(int n)
{
	pvm_pkint(&n, 1, 1);
}

static void copy_numbers(int n)
{
	while (n-- > 0)
		pack_number(number());
}

static void copy_strings(int n)
{
	char text[4096];

	while (n-- > 0) {
		pvm_upkstr(text);
		pvm_pkstr(text);
	}
}

/* The client's order, passed on to the daemon with the client as the parent. */
static void start(int client)
{
	char file[4096], where[4096];
	int flags, count, n;

	pvm_upkstr(file);
	flags = number();
	pvm_upkstr(where);
	count = number();
	printf("SPAWN where '%s' count %d\n", where, count);
	pvm_initsend(PvmDataDefault);
	pack_number(client);
	pvm_pkstr(file);
	pack_number(flags);
	pack_number(count);
	pack_number(n = number());
	copy_strings(n);
	copy_numbers(6);
	pack_number(n = number());
	copy_strings(n);
	pack_number(0);
	pack_number(count);
	SHOW(pvm_send(DAEMON, SM_EXEC));
	for (;;) {
		SHOW(pvm_recv(DAEMON, SM_EXECACK) > 0);
		n = number();
		printf("started %d\n", n);
		if (n == WORKERS)
			break;
	}
	begin_answer();
	pack_number(n);
	copy_numbers(n);
}

static void pack_host(int tid, char *name)
{
	pack_number(tid);
	pvm_pkstr(name);
	pvm_pkstr(*name ? "LINUX64" : "");
	pack_number(*name ? 1000 : 0);
	pack_number(0);
}

static void notify(int client)
{
	int what = number(), context = number(), tag = number(), count = number(), tid;

	printf("NOTIFY %d context %d tag %d count %d\n", what, context, tag, count);
	tid = number();
	pvm_initsend(PvmDataDefault);
	pack_number(tid);
	pvm_send(client, tag);
}

/* Serves one message; 0 after the client's report. */
static int serve(void)
{
	struct pvmminfo info;
	char text[4096];
	int tid, tag;

	pvm_recv(-1, -1);
	pvm_getminfo(pvm_getrbuf(), &info);
	tid = info.src;
	tag = info.tag;
	if (tag == REPORT) {
		pvm_upkstr(text);
		printf("%s", text);
		return 0;
	}
	if (tag == SM_EXECACK || tag == SM_TASKX) {
		printf("unasked %d\n", tag - SM_FIRST);
		return 1;
	}
	printf("request %d, context %d, a wait id %d\n", tag - SM_FIRST, info.ctx, info.wid != 0);
	asked++;
	switch (tag) {
	case SM_SPAWN:
		start(tid);
		break;
	case SM_NOTIFY:
		notify(tid);
		return 1;
	case SM_CONFIG:
		begin_answer();
		pack_number(2);
		pack_number(1);
		pack_host(1 << 18, "one-host");
		pack_host(2 << 18, "another");
		break;
	case SM_TASK:
		printf("TASK %d\n", number());
		begin_answer();
		pack_number(0);
		pack_number(77);
		pack_number(0);
		pack_number(1 << 18);
		pack_number(6);
		pvm_pkstr("invented");
		pack_number(4711);
		break;
	case SM_ADDHOST:
	case SM_DELHOST:
		printf("hosts %d\n", number());
		pvm_upkstr(text);
		printf("host %s\n", text);
		begin_answer();
		pack_number(1);
		if (tag == SM_ADDHOST) {
			pack_number(0);
			pack_host(PvmCantStart, "");
		} else
			pack_number(PvmNoHost);
		break;
	default:
		printf("what is that?\n");
		return 0;
	}
	end_answer(tid, tag, info.ctx, info.wid);
	return 1;
}

static int manager(void)
{
	struct pvmhostinfo *host;
	char *args[] = {"client", NULL};
	int client;

	ID(pvm_mytid());
	SHOW(pvm_setopt(PvmResvTids, 1));
	SHOW(pvm_reg_rm(&host));
	printf("the master's host: %d\n", host->hi_tid == pvm_tidtohost(pvm_mytid()));
	SHOW(pvm_spawn(program, args, PvmTaskDefault, NULL, 1, &client));
	while (serve())
		;
	printf("asked %d times\n", asked);
	SHOW(pvm_exit());
	return 0;
}

static int client(void)
{
	struct pvmhostinfo *hosts;
	struct pvmtaskinfo *tasks;
	char report[4096] = "", *args[] = {"worker", NULL}, *name = "nowhere";
	char *end = report;
	int nhost, narch, ntask, status, tids[WORKERS], i, code;

	code = pvm_config(&nhost, &narch, &hosts);
	end += sprintf(end, "client: config %d, %d hosts: %s %s\n", code, nhost, hosts[0].hi_name, hosts[1].hi_name);
	code = pvm_tasks(0, &ntask, &tasks);
	end += sprintf(end, "client: tasks %d, %d: %s %d\n", code, ntask, tasks[0].ti_a_out, tasks[0].ti_pid);
	code = pvm_addhosts(&name, 1, &status);
	end += sprintf(end, "client: addhosts %d, %d\n", code, status);
	code = pvm_delhosts(&name, 1, &status);
	end += sprintf(end, "client: delhosts %d, %d\n", code, status);
	code = pvm_spawn(program, args, PvmTaskDefault, NULL, WORKERS, tids);
	end += sprintf(end, "client: spawn %d\n", code);
	for (i = 0; i < WORKERS; i++) {
		code = pvm_recv(tids[i], HELLO) > 0;
		end += sprintf(end, "client: hello %d: %d siblings\n", code, number());
	}
	code = pvm_notify(PvmTaskExit, GONE, 1, tids);
	end += sprintf(end, "client: notify %d\n", code);
	code = pvm_recv(-1, GONE) > 0;
	end += sprintf(end, "client: gone %d: the first %d\n", code, number() == tids[0]);
	code = pvm_pstat(pvm_mytid());
	end += sprintf(end, "client: pstat %d\n", code);
	tell_text(pvm_parent(), REPORT, report);
	pvm_exit();
	return 0;
}

static int worker(void)
{
	int *tids, n = pvm_siblings(&tids);

	tell(pvm_parent(), HELLO, n);
	/* Its end would be told to the manager in the midst of other things. */
	pvm_recv(-1, GONE);
	return 0;
}

int main(int argc, char **argv)
{
	begin();
	if (!realpath(argv[0], program))
		return 1;
	if (argc > 1)
		return strcmp(argv[1], "client") ? worker() : client();
	return manager();
}
