/* A task of another host that returns from main without pvm_exit, has messages that it has not received, and has sent messages that its
 * parent has not received yet: all of these come, and then the notice of its end. The original's daemon has no second host here, and drops
 * what it has not read of a process that has ended: with it the task calls pvm_exit. */
#include "show.h"

enum { PING = 1, GO, MORE, DATA, ENDED, PINGS = 50, LONG = 1000000, PARTS = 6 };

static char bytes[LONG];

static void ping(int to)
{
	pvm_initsend(PvmDataDefault);
	pvm_send(to, PING);
	pvm_recv(to, PING);
}

static int child(int exits)
{
	int i, parent = pvm_parent();

	for (i = 0; i < PINGS; i++) {
		pvm_recv(parent, PING);
		pvm_initsend(PvmDataDefault);
		pvm_send(parent, PING);
	}
	pvm_recv(parent, GO);
	for (i = 0; i < PARTS; i++) {
		pvm_initsend(PvmDataRaw);
		pvm_pkint(&i, 1, 1);
		pvm_pkbyte(bytes, LONG, 1);
		pvm_send(parent, DATA);
	}
	if (exits)
		pvm_exit();
	return 0;
}

int main(int argc, char **argv)
{
	char *returns[] = {"returns", NULL}, *exits[] = {"exits", NULL}, *host[] = {"far via=local"};
	int i, far, tid, number, length, info, error;

	begin();
	if (argc > 1)
		return child(strcmp(argv[1], "exits") == 0);
	be_silent();
	ID(pvm_mytid());
	far = pvm_addhosts(host, 1, &error) == 1;
	SHOW(pvm_spawn(argv[0], far ? returns : exits, far ? PvmTaskHost : PvmTaskDefault, "far", 1, &tid));
	SHOW(pvm_notify(PvmTaskExit, ENDED, 1, &tid));
	for (i = 0; i < PINGS; i++)
		ping(tid);
	pvm_initsend(PvmDataDefault);
	SHOW(pvm_send(tid, GO));
	for (i = 0; i < 100; i++) {
		pvm_initsend(PvmDataRaw);
		pvm_pkbyte(bytes, 1000, 1);
		pvm_send(tid, MORE);
	}
	usleep(200000);
	for (i = 0; i < PARTS; i++) {
		ID(pvm_recv(-1, -1));
		pvm_bufinfo(pvm_getrbuf(), &length, &info, &error);
		pvm_upkint(&number, 1, 1);
		printf("%d bytes, tag %d, number %d\n", length, info, number);
	}
	ID(pvm_recv(-1, -1));
	pvm_bufinfo(pvm_getrbuf(), &length, &info, &error);
	printf("tag %d\n", info);
	SHOW(pvm_exit());
	return 0;
}
