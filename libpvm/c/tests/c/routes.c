/* Direct routes: who asks, who grants, what is told of them, and which way messages take. */
#include "show.h"

enum { READY = 1, WORK = 2, DONE = 3, ADDED = 4, GONE = 5, STOP = 6 };

static char program[4096];

/* Answers pieces of work with its number of descriptors. */
static int child(int policy)
{
	int parent = pvm_parent(), tag, *fds;

	pvm_setopt(PvmRoute, policy);
	tell(parent, READY, policy);
	for (;;) {
		pvm_recv(parent, -1);
		pvm_bufinfo(pvm_getrbuf(), NULL, &tag, NULL);
		if (tag == STOP)
			break;
		tell(parent, DONE, 1000 * number() + pvm_getfds(&fds));
	}
	pvm_exit();
	return 0;
}

static int start(int policy)
{
	char digits[12], *args[] = {"child", digits, NULL};
	int tid;

	sprintf(digits, "%d", policy);
	if (pvm_spawn(program, args, PvmTaskDefault, NULL, 1, &tid) != 1)
		printf("no child\n");
	return tid;
}

static void work(int tid, int n)
{
	int *fds;

	tell(tid, WORK, n);
	pvm_recv(tid, DONE);
	printf("work %d: the child has said %d", n, number());
	printf(", descriptors here %d\n", pvm_getfds(&fds));
}

static void told(int tag, int tid)
{
	int *fds, n, here, fd;

	pvm_recv(-1, tag);
	n = pvm_getfds(&fds);
	here = number() == tid;
	fd = number();
	printf("told %d of the child: %d, descriptor is %s\n", tag, here, fd == -1 ? "none" : fd == fds[n - 1] ? "the last" : "another");
}

/* The route to a child that has ended is gone, too: the next count of descriptors is without it. */
static void until_alone(void)
{
	int *fds, i;

	for (i = 0; pvm_getfds(&fds) > 1 && i < 5000; i++) {
		pvm_nrecv(-1, STOP);
		usleep(1000);
	}
}

/*
 * One child that does so, while this task does otherwise. Who grants is told twice: where the other will call, and
 * where it has. The original tells of a route's end only who has asked for it, and never of one that was refused; so
 * these notices are not waited for.
 */
static void pair(int own, int its)
{
	int tid, gone = GONE + 100 * own + 10 * its, n, i;

	printf("this task %d, the child %d\n", own, its);
	pvm_setopt(PvmRoute, own);
	pvm_notify(PvmRouteAdd, ADDED, -1, NULL);
	/* Not before: the child may ask for a route while this task still waits for the spawn's end. */
	tid = start(its);
	pvm_recv(tid, READY);
	work(tid, 1);
	work(tid, 2);
	for (n = 0; pvm_nrecv(-1, ADDED) > 0; n++)
		;
	printf("a route has come: told %d times\n", n);
	pvm_notify(PvmRouteDelete, gone, 1, &tid);
	if (!n && own != PvmRouteDirect)
		told(gone, tid);
	pvm_initsend(PvmDataDefault);
	i = 3;
	pvm_pkint(&i, 1, 1);
	pvm_mcast(&tid, 1, WORK);
	pvm_recv(tid, DONE);
	printf("a multicast is answered %d\n", number());
	tell(tid, STOP, 0);
	if (n && its == PvmAllowDirect)
		told(gone, tid);
	until_alone();
	pvm_notify(PvmRouteAdd, ADDED, 0, NULL);
}

int main(int argc, char **argv)
{
	int own, its, tid, me;

	/* By sockets, as the original: tasks of one host have a better way. */
	setenv("PVM_SHM", "0", 1);
	begin();
	if (argc > 2)
		return child(atoi(argv[2]));
	if (!realpath(argv[0], program))
		return 1;
	me = pvm_mytid();
	SHOW(pvm_getopt(PvmRoute));
	for (own = PvmDontRoute; own <= PvmRouteDirect; own++)
		for (its = PvmDontRoute; its <= PvmRouteDirect; its++)
			pair(own, its);
	tell(me, WORK, 7);
	pvm_recv(me, WORK);
	printf("to myself %d\n", number());
	pvm_notify(PvmRouteAdd, ADDED, -1, NULL);
	tid = start(PvmAllowDirect);
	work(tid, 4);
	told(ADDED, tid);
	SHOW(pvm_notify(PvmRouteDelete, GONE, 0, &tid));
	SHOW(pvm_notify(PvmRouteDelete, GONE, 1, &tid));
	SHOW(pvm_nrecv(-1, GONE));
	SHOW(pvm_kill(tid));
	told(GONE, tid);
	/* Nobody grants; the message goes nowhere. */
	tell(tid, WORK, 5);
	printf("still here\n");
	pvm_exit();
	return 0;
}
