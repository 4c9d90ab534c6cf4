/* Errors that need something set up first: a strange message, a handler, a matcher, a string of 5,000 hosts. */
#include "show.h"
#include <pvmtev.h>

enum { HANDLED = 20, MARK = 21, LAST = 22 };

/* A message inside a message with these fields, as if from a machine with other numbers. */
static int foreign(int encoding)
{
	int me = pvm_mytid(), fields[] = {8, 0, 5, 0, 0, 0, 0, 0}, length = 8;

	fields[4] = encoding;
	pvm_initsend(PvmDataDefault);
	pvm_pkint(fields, 8, 1);
	pvm_pkint(&length, 1, 1);
	pvm_pkbyte("\0\0\0\3abc", 8, 1);
	pvm_send(me, 1);
	pvm_recv(me, 1);
	return pvm_upkmesg();
}

static void aliens(void)
{
	int n = 7, old, alien;
	char bytes[9] = "";
	short s;
	double d;

	ID(alien = foreign(0x1234));
	pvm_setrbuf(alien);
	SHOW(pvm_upkint(&n, 1, 1));
	SHOW(pvm_upkshort(&s, 1, 1));
	SHOW(pvm_upkdouble(&d, 1, 1));
	SHOW(pvm_upkstr(bytes));
	SHOW(pvm_upkbyte(bytes, 2, 1));
	SHOW(pvm_upkbyte(bytes, 7, 1));
	SHOW(pvm_unpackf("%d", &n));
	SHOW(pvm_upkmesg() < 0);
	pvm_setrbuf(0);
	pvm_initsend(PvmDataDefault);
	SHOW(pvm_pkmesgbody(alien));
	SHOW(pvm_freebuf(alien));
	ID(alien = foreign(0x10000000));
	old = pvm_setrbuf(alien);
	SHOW(pvm_upkint(&n, 1, 1));
	printf("%d, %d\n", n, old > 0);
	SHOW(pvm_upkbyte(bytes, 3, 1));
	printf("%s\n", bytes);
	pvm_initsend(PvmDataRaw);
	SHOW(pvm_pkmesgbody(alien));
	pvm_freebuf(alien);
}

static int handled;

/* A handler can have what has come already; calls that wait are refused. */
static int handler(int mid)
{
	struct timeval soon = {0, 0};
	int tids[1], i;

	printf("handler: number %d, context %d\n", (pvm_setrbuf(mid), number()), pvm_getcontext());
	SHOW(pvm_getsbuf());
	for (i = 0; i < 2; i++) {
		ID(pvm_probe(-1, MARK));
		ID(pvm_nrecv(-1, MARK));
		ID(pvm_trecv(-1, MARK, &soon));
		ID(pvm_recv(-1, MARK));
		SHOW(pvm_precv(-1, MARK, tids, 1, PVM_INT, NULL, NULL, NULL));
	}
	soon.tv_usec = 900000;
	SHOW(pvm_trecv(-1, MARK, &soon));
	SHOW(pvm_config(NULL, NULL, NULL));
	SHOW(pvm_pstat(pvm_mytid()));
	SHOW(pvm_newcontext());
	handled = 1;
	SHOW(pvm_spawn("nothing-of-this-name", NULL, 0, NULL, 1, tids));
	return 0;
}

static void handlers(void)
{
	int me = pvm_mytid(), id, other, n = 4, i;

	ID(id = pvm_addmhf(me, HANDLED, -1, handler));
	SHOW(pvm_addmhf(-1, HANDLED, -1, handler));
	SHOW(pvm_addmhf(me, -1, 7, handler));
	SHOW(pvm_addmhf(-1, -1, -1, handler));
	ID(other = pvm_addmhf(me + 1, HANDLED, -1, handler));
	SHOW(pvm_delmhf(other) >= 0);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	for (i = 0; i < 4; i++)
		pvm_send(me, MARK);
	pvm_send(me, LAST);
	ID(pvm_recv(me, LAST));
	/* Not within a call that receives: with the original, that one loses its message. */
	pvm_send(me, HANDLED);
	while (!handled)
		pvm_probe(me, HANDLED);
	pvm_send(me, LAST);
	ID(pvm_recv(me, LAST));
	printf("after it: %d\n", number());
	SHOW(pvm_delmhf(id) >= 0);
	SHOW(pvm_delmhf(id));
}

static int refusing(int mid, int tid, int tag)
{
	return mid > 0 && tid == -1 && tag == MARK ? PvmDenied : 0;
}

static void matchers(void)
{
	int me = pvm_mytid();
	struct timeval soon = {0, 0};

	pvm_initsend(PvmDataDefault);
	pvm_send(me, MARK);
	while (!pvm_probe(me, MARK))
		;
	pvm_recvf(refusing);
	SHOW(pvm_recv(-1, MARK));
	SHOW(pvm_nrecv(-1, MARK));
	SHOW(pvm_probe(-1, MARK));
	SHOW(pvm_trecv(-1, MARK, &soon));
	SHOW(pvm_precv(-1, MARK, &me, 1, PVM_INT, NULL, NULL, NULL));
	pvm_recvf(NULL);
	ID(pvm_recv(-1, MARK));
}

static void hosts(void)
{
	static char *names[5000];
	static int status[5000];
	int i;

	for (i = 0; i < 5000; i++)
		names[i] = "";
	SHOW(pvm_addhosts(names, 5000, status));
	SHOW(pvm_delhosts(names, 5000, status));
	names[0] = "no-such-host";
	SHOW(pvm_delhosts(names, 1, status));
	printf("%d\n", status[0]);
	names[1] = "localhost";
	SHOW(pvm_delhosts(names, 2, status));
	printf("%d %d\n", status[0], status[1]);
}

static void arguments(void)
{
	int me = pvm_mytid(), host = pvm_tidtohost(me), n = 1, tids[2] = {0, 0};
	struct pvmminfo info;
	Pvmtmask mask = "";

	SHOW(pvm_archcode(NULL));
	SHOW(pvm_archcode(""));
	SHOW(pvm_mstat(NULL));
	SHOW(pvm_getminfo(999, &info));
	SHOW(pvm_setminfo(0, &info));
	SHOW(pvm_setsbuf(-1));
	SHOW(pvm_setrbuf(999));
	SHOW(pvm_mkbuf(-1));
	SHOW(pvm_pstat(host));
	SHOW(pvm_pstat(0));
	SHOW(pvm_kill(host));
	SHOW(pvm_sendsig(host, 0));
	SHOW(pvm_notify(PvmTaskExit, 1, 1, &host));
	SHOW(pvm_notify(PvmHostAdd, -1, 1, NULL));
	SHOW(pvm_notify(PvmRouteDelete, 1, 0, tids));
	SHOW(pvm_notify(PvmRouteDelete, 1, 1, &host));
	SHOW(pvm_notify(0, 1, 1, tids));
	SHOW(pvm_gettmask(77, mask));
	SHOW(pvm_settmask(-1, mask));
	SHOW(pvm_spawn("", NULL, 0, NULL, 1, tids));
	printf("%d\n", tids[0]);
	SHOW(pvm_spawn("/etc/passwd", NULL, 0, NULL, 1, tids));
	printf("%d\n", tids[0]);
	SHOW(pvm_spawn("/tmp", NULL, 0, NULL, 1, tids));
	printf("%d\n", tids[0]);
	pvm_setsbuf(0);
	tids[0] = me;
	SHOW(pvm_mcast(tids, 1, 1));
	SHOW(pvm_send(host, 1));
	SHOW(pvm_pkmesg(1) < 0);
	SHOW(pvm_pkmesgbody(1) < 0);
	pvm_initsend(PvmDataDefault);
	SHOW(pvm_setopt(PvmResvTids, 1));
	SHOW(pvm_send(me, -5));
	ID(pvm_recv(me, -5));
	SHOW(pvm_setopt(PvmResvTids, 0));
	SHOW(pvm_send(me, -5));
	SHOW(pvm_tasks(-1, &n, NULL));
	RESULT(pvm_tasks(me + 100, &n, NULL));
	printf("%d\n", n);
}

int main(void)
{
	begin();
	ID(pvm_mytid());
	pvm_setopt(PvmAutoErr, 0);
	arguments();
	aliens();
	handlers();
	matchers();
	hosts();
	RESULT(pvm_exit());
	return 0;
}
