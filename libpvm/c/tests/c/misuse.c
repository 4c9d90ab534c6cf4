/* What no call should be given: the answer is an error code, and the library goes on. Not for the original, which crashes at some. */
#include "show.h"
#include <pvmtev.h>

#define NONE NULL

static void null_pointers(void)
{
	int n = 0, count = 1;

	pvm_initsend(PvmDataDefault);
	SHOW(pvm_pkint(NONE, 1, 1));
	SHOW(pvm_pkbyte(NONE, 3, 1));
	SHOW(pvm_pklong(NONE, 1, 1));
	SHOW(pvm_pkdouble(NONE, 1, 2));
	SHOW(pvm_pkdcplx(NONE, 1, 1));
	SHOW(pvm_pkstr(NONE));
	SHOW(pvm_pkint(NONE, 0, 1));
	SHOW(pvm_packf(NONE));
	SHOW(pvm_packf("%s", NONE));
	SHOW(pvm_pkint(&n, 1, 1));
	SHOW(pvm_pkstr("text"));
	pvm_setrbuf(pvm_setsbuf(0));
	SHOW(pvm_upkint(NONE, 1, 1));
	SHOW(pvm_upkint(&n, 1, 1));
	SHOW(pvm_upkstr(NONE));
	SHOW(pvm_unpackf(NONE));
	SHOW(pvm_spawn(NONE, NONE, 0, NONE, 1, &n));
	SHOW(pvm_mcast(NONE, 1, 1));
	SHOW(pvm_notify(PvmTaskExit, 1, 1, NONE));
	SHOW(pvm_notify(PvmHostDelete, 1, 1, NONE));
	SHOW(pvm_addhosts(NONE, 1, &n));
	SHOW(pvm_delhosts(NONE, 1, NONE));
	SHOW(pvm_mstat(NONE));
	SHOW(pvm_archcode(NONE));
	SHOW(pvm_export(NONE));
	SHOW(pvm_unexport(NONE));
	SHOW(pvm_putinfo(NONE, 1, 0));
	SHOW(pvm_recvinfo(NONE, 0, 0));
	SHOW(pvm_delinfo(NONE, 0, 0));
	SHOW(pvm_insert(NONE, 0, 1));
	SHOW(pvm_lookup(NONE, 0, &n));
	SHOW(pvm_delete(NONE, 0));
	SHOW(pvm_setminfo(pvm_getrbuf(), NONE));
	SHOW(pvm_psend(pvm_mytid(), 1, NONE, 1, PVM_INT));
	SHOW(pvm_tickle(1, NONE, &count, &n));
	SHOW(pvm_settmask(1, NONE));
	SHOW(pvm_gettmask(1, NONE));
	SHOW(pvm_gettmask(77, NONE));
	SHOW(pvm_reg_tracer(0, 0, 0, 0, NONE, 0, 0) < 0);
	SHOW(pvm_joingroup(NONE));
	SHOW(pvm_lvgroup(NONE));
	SHOW(pvm_gsize(NONE));
	SHOW(pvm_getinst(NONE, pvm_mytid()));
	SHOW(pvm_gettid(NONE, 0));
	SHOW(pvm_barrier(NONE, 1));
	SHOW(pvm_bcast(NONE, 1));
	SHOW(pvm_freezegroup(NONE, 1));
	SHOW(pvm_perror(NONE));
}

/* Where results are not wanted. */
static void unwanted_results(void)
{
	SHOW(pvm_config(NONE, NONE, NONE));
	SHOW(pvm_tasks(0, NONE, NONE));
	SHOW(pvm_bufinfo(pvm_getrbuf(), NONE, NONE, NONE));
	SHOW(pvm_getminfo(pvm_getrbuf(), NONE));
	SHOW(pvm_hostsync(pvm_tidtohost(pvm_mytid()), NONE, NONE));
	SHOW(pvm_getfds(NONE));
	SHOW(pvm_siblings(NONE));
	SHOW(pvm_getmboxinfo(NONE, NONE, NONE));
	SHOW(pvm_getnoresets(NONE, NONE));
	SHOW(pvm_spawn("nothing-of-this-name", NONE, 0, NONE, 1, NONE));
}

static void counts(void)
{
	int n[4] = {1, 2, 3, 4}, huge = 0x7fffffff;
	char byte = 0;

	pvm_initsend(PvmDataDefault);
	SHOW(pvm_pkbyte(&byte, -1, 1));
	SHOW(pvm_pkshort((short *)n, -1, 1));
	SHOW(pvm_pkdouble((double *)n, -7, 1));
	SHOW(pvm_packf("%*d", -1, n));
	SHOW(pvm_packf("%99999999999d", n));
	SHOW(pvm_packf("%"));
	SHOW(pvm_packf("%hhlld"));
	SHOW(pvm_pkint(n + 3, 4, -1));
	SHOW(pvm_pkint(n, 3, 0));
	SHOW(pvm_psend(pvm_mytid(), 1, n, -1, PVM_INT));
	SHOW(pvm_psend(pvm_mytid(), 1, n, huge, -3));
	SHOW(pvm_precv(pvm_mytid(), 1, n, -1, PVM_INT, NONE, NONE, NONE));
	SHOW(pvm_spawn("x", NONE, 0, NONE, -5, n));
	SHOW(pvm_addhosts((char **)NONE, -1, n));
	SHOW(pvm_addhosts((char **)NONE, 5000, n));
	SHOW(pvm_trecv(-1, 77, &(struct timeval){-1, -1}));
	SHOW(pvm_trecv(-1, 77, &(struct timeval){0, 0}));
}

/* What does not fit what was packed. */
static void wrong_order(void)
{
	double d[4] = {0};
	char text[100], bytes[8];
	int n = 7, me = pvm_mytid(), i;

	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	pvm_pkstr("a string");
	pvm_send(me, 1);
	pvm_recv(me, 1);
	SHOW(pvm_upkdouble(d, 4, 1));
	SHOW(pvm_upkint(&n, 1, 1));
	pvm_send(me, 1);
	pvm_recv(me, 1);
	SHOW(pvm_upkstr(text));
	pvm_send(me, 1);
	pvm_recv(me, 1);
	SHOW(pvm_upkbyte(bytes, 4, 1));
	SHOW(pvm_upkbyte(bytes, 8, 1));
	SHOW(pvm_upkbyte(bytes, 8, 1));
	n = -1;
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	pvm_pkint(&n, 1, 1);
	pvm_send(me, 1);
	pvm_recv(me, 1);
	SHOW(pvm_upkstr(text) < 0);
	pvm_send(me, 1);
	pvm_recv(me, 1);
	SHOW(pvm_upkmesg() < 0);
	for (i = 0; i < 3; i++) {
		pvm_initsend(i);
		pvm_send(me, 1);
		pvm_recv(me, 1);
		SHOW(pvm_upkint(&n, 1, 1));
		SHOW(pvm_upkint(&n, 0, 1));
		SHOW(pvm_upkstr(text));
	}
}

static int handled;

/* A handler that packs, sends and receives; waiting is refused inside it. */
static int handler(int mid)
{
	int n, old;

	handled++;
	pvm_setrbuf(mid);
	n = number() + 1;
	old = pvm_setsbuf(pvm_mkbuf(PvmDataDefault));
	pvm_pkint(&n, 1, 1);
	SHOW(pvm_send(pvm_mytid(), 21));
	pvm_freebuf(pvm_setsbuf(old));
	SHOW(pvm_recv(-1, 21));
	SHOW(pvm_nrecv(-1, 21));
	SHOW(pvm_probe(-1, 21));
	return 0;
}

static void handlers(void)
{
	int id, n = 5, me = pvm_mytid();

	SHOW(pvm_addmhf(-1, 20, -1, NONE));
	ID(id = pvm_addmhf(-1, 20, -1, handler));
	SHOW(pvm_addmhf(-1, 20, -1, handler));
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	SHOW(pvm_send(me, 20));
	ID(pvm_recv(me, 21));
	printf("%d handled: %d\n", handled, number());
	SHOW(pvm_delmhf(id) >= 0);
	SHOW(pvm_delmhf(id));
}

int main(void)
{
	int n = 3, me;

	begin();
	me = pvm_mytid();
	pvm_setopt(PvmAutoErr, 0);
	null_pointers();
	unwanted_results();
	counts();
	wrong_order();
	handlers();
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	SHOW(pvm_send(me, 9));
	ID(pvm_recv(me, 9));
	printf("still works: %d\n", number());
	SHOW(pvm_exit());
	return 0;
}
