/* What calls return and print for arguments that cannot be. */
#include "show.h"

static char *none[] = {""};

static void without_buffers(void)
{
	int n = 0;
	char text[10];

	SHOW(pvm_getsbuf());
	SHOW(pvm_getrbuf());
	SHOW(pvm_pkint(&n, 1, 1));
	SHOW(pvm_pkint(&n, -1, 1));
	SHOW(pvm_pkstr("x"));
	SHOW(pvm_upkint(&n, 1, 1));
	SHOW(pvm_upkint(&n, -1, 1));
	SHOW(pvm_upkstr(text));
	SHOW(pvm_packf("%d", 1));
	SHOW(pvm_unpackf("%d", &n));
	SHOW(pvm_send(pvm_mytid(), 1));
	SHOW(pvm_pkmesg(1));
	SHOW(pvm_upkmesg());
}

static void buffers(void)
{
	int n = 1, length;
	struct pvmminfo info;

	SHOW(pvm_initsend(3));
	SHOW(pvm_initsend(-1));
	SHOW(pvm_mkbuf(9));
	SHOW(pvm_freebuf(0));
	SHOW(pvm_freebuf(-1));
	SHOW(pvm_freebuf(999));
	SHOW(pvm_setsbuf(999));
	SHOW(pvm_setrbuf(-4));
	SHOW(pvm_bufinfo(0, &length, NULL, NULL));
	SHOW(pvm_bufinfo(999, &length, NULL, NULL));
	SHOW(pvm_getminfo(0, &info));
	SHOW(pvm_setminfo(999, &info));
	pvm_initsend(PvmDataDefault);
	SHOW(pvm_pkint(&n, -1, 1));
	SHOW(pvm_pkint(&n, 0, 1));
	SHOW(pvm_pkmesg(0));
	SHOW(pvm_pkmesg(999));
	SHOW(pvm_pkmesgbody(999));
	pvm_initsend(PvmDataInPlace);
	SHOW(pvm_pkint(&n, 1, 2));
	SHOW(pvm_pkstr("x"));
	SHOW(pvm_packf("%q", 1));
}

static void messages(void)
{
	int tid = pvm_mytid(), host = pvm_tidtohost(tid), n = 1, tids[2];
	int from, tag, length;
	pvm_initsend(PvmDataDefault);
	tids[0] = tid;
	tids[1] = -7;
	SHOW(pvm_send(-1, 1));
	SHOW(pvm_send(host, 1));
	SHOW(pvm_send(0, 1));
	SHOW(pvm_send(tid, -1));
	SHOW(pvm_mcast(tids, -1, 1));
	SHOW(pvm_mcast(tids, 1, -1));
	SHOW(pvm_mcast(tids, 2, 1));
	SHOW(pvm_mcast(tids, 0, 1));
	SHOW(pvm_psend(tid, 1, &n, 1, PVM_STR));
	SHOW(pvm_psend(tid, 1, &n, 1, 77));
	SHOW(pvm_psend(tid, -1, &n, 1, PVM_INT));
	SHOW(pvm_psend(-1, 1, &n, 1, PVM_INT));
	SHOW(pvm_precv(tid, 1, &n, 1, PVM_STR, &from, &tag, &length));
	SHOW(pvm_precv(tid, 1, &n, 1, 77, &from, &tag, &length));
	SHOW(pvm_nrecv(-5, 3));
	SHOW(pvm_nrecv(-1, -7));
	SHOW(pvm_probe(-1, 12345));
}

static void machine(void)
{
	int tid = pvm_mytid(), tids[2], status[2], nt;
	struct pvmtaskinfo *tasks;
	struct timeval clock, delta;

	SHOW(pvm_spawn("nothing-of-this-name", NULL, 0, NULL, 0, tids));
	SHOW(pvm_spawn("nothing-of-this-name", NULL, 0, NULL, -1, tids));
	SHOW(pvm_spawn("nothing-of-this-name", NULL, 0, NULL, 1, NULL));
	SHOW(pvm_spawn("nothing-of-this-name", NULL, 0, NULL, 2, tids));
	printf("%d %d\n", tids[0], tids[1]);
	SHOW(pvm_spawn("nothing-of-this-name", NULL, PvmTaskHost, "no-such-host", 1, tids));
	printf("%d\n", tids[0]);
	SHOW(pvm_spawn("nothing-of-this-name", NULL, PvmTaskArch, "NO-SUCH-ARCH", 1, tids));
	printf("%d\n", tids[0]);
	SHOW(pvm_kill(0));
	SHOW(pvm_sendsig(-1, 2));
	SHOW(pvm_kill(tid + 100));
	SHOW(pvm_pstat(tid));
	SHOW(pvm_pstat(tid + 100));
	SHOW(pvm_pstat(-1));
	SHOW(pvm_mstat("no-such-host"));
	SHOW(pvm_mstat(""));
	SHOW(pvm_archcode("NO-SUCH-ARCH"));
	SHOW(pvm_tasks(pvm_tidtohost(tid) + (7 << 18), &nt, &tasks));
	SHOW(pvm_hostsync(7 << 18, &clock, &delta));
	SHOW(pvm_notify(PvmTaskExit, 1, 0, tids));
	SHOW(pvm_notify(PvmTaskExit, -1, 1, &tid));
	tids[0] = -3;
	SHOW(pvm_notify(PvmTaskExit, 1, 1, tids));
	SHOW(pvm_notify(PvmHostDelete, 1, 0, tids));
	SHOW(pvm_notify(77, 1, 1, tids));
	SHOW(pvm_addhosts(none, 0, status));
	SHOW(pvm_delhosts(none, 0, status));
	SHOW(pvm_tickle(0, tids, &nt, status));
	SHOW(pvm_tickle(11, tids, &nt, status));
}

static void others(void)
{
	SHOW(pvm_parent());
	SHOW(pvm_getopt(0));
	SHOW(pvm_getopt(PvmPollType));
	SHOW(pvm_setopt(99, 1));
	SHOW(pvm_setopt(PvmRoute, 0));
	SHOW(pvm_setopt(PvmFragSize, 10));
	SHOW(pvm_setopt(PvmPollTime, 10));
	SHOW(pvm_setopt(PvmSelfOutputContext, 1));
	SHOW(pvm_setopt(PvmTraceOptions, 7));
	SHOW(pvm_setopt(PvmOutputTid, 7));
	SHOW(pvm_freecontext(12345));
	SHOW(pvm_delmhf(-1));
	SHOW(pvm_delmhf(99));
	SHOW(pvm_recvinfo("nothing of this name", 0, 0));
	SHOW(pvm_recvinfo("x", -1, 0));
	SHOW(pvm_recvinfo("", 0, 0));
	SHOW(pvm_delinfo("nothing of this name", 0, 0));
	SHOW(pvm_delinfo("x", -1, 0));
	SHOW(pvm_lookup("nothing of this name", 0, NULL));
	SHOW(pvm_lookup("x", -2, NULL));
	SHOW(pvm_insert("x", -2, 1));
	SHOW(pvm_delete("nothing of this name", 0));
	SHOW(pvm_delete("x", -1));
}

int main(void)
{
	int i;

	begin();
	ID(pvm_mytid());
	SHOW(pvm_freebuf(-1));
	SHOW(pvm_perror("prefix"));
	/* Some calls of the original report an error twice, so the rest is not printed by the library. */
	SHOW(pvm_setopt(PvmAutoErr, 0));
	without_buffers();
	buffers();
	messages();
	machine();
	others();
	printf("%s\n", pvm_strerror());
	pvm_errno = -100;
	printf("%s\n", pvm_strerror());
	printf("%s, %d texts\n", pvm_version(), pvm_nerr);
	for (i = 0; i < pvm_nerr; i++)
		printf("%d %s\n", -i, pvm_errlist[i]);
	SHOW(pvm_exit());
	return 0;
}
