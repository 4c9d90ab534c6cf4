/*
 * ring: spawns a member on each host. For each line of its standard input all members exchange a message with the next one,
 * by their daemons, and the number of exchanges is printed. The loss of a host is printed, too; its member leaves the ring.
 * At the end of the input all members exit.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

enum { HERE = 1, TURN = 2, FORTH = 3, BACK = 4, DONE = 5, LOST = 6, MAX = 4096 };

/* Seconds after which a message is missing. */
enum { PATIENCE = 20 };

static int tids[MAX];
static int members;

static void say(int to, int tag, int value)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&value, 1, 1);
	pvm_send(to, tag);
}

/* What another member has sent, or 0 if nothing comes. */
static int hear(int from, int tag)
{
	struct timeval limit = { PATIENCE, 0 };
	int value = 0;

	if (pvm_trecv(from, tag, &limit) > 0)
		pvm_upkint(&value, 1, 1);
	return value;
}

/* Each member sends its task id to both neighbours, and checks the ids that it receives. */
static int exchange(int own)
{
	int i, next, previous;

	for (i = 0; i < members && tids[i] != own; i++)
		;
	next = tids[(i + 1) % members];
	previous = tids[(i + members - 1) % members];
	say(next, FORTH, own);
	if (hear(previous, FORTH) != previous)
		return 0;
	say(previous, BACK, own);
	return hear(next, BACK) == next;
}

static int member(void)
{
	int own = pvm_mytid();
	int parent = pvm_parent();

	/* Else neighbours might connect to each other directly. */
	pvm_setopt(PvmRoute, PvmDontRoute);
	say(parent, HERE, getppid());
	for (;;) {
		pvm_recv(parent, TURN);
		pvm_upkint(&members, 1, 1);
		if (members < 1 || members > MAX)
			break;
		pvm_upkint(tids, members, 1);
		say(parent, DONE, exchange(own));
	}
	pvm_exit();
	return 0;
}

static void order(int count)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&count, 1, 1);
	pvm_pkint(tids, count, 1);
	pvm_mcast(tids, members, TURN);
}

static void turn(void)
{
	int i, done = 0;

	order(members);
	for (i = 0; i < members; i++)
		done += hear(tids[i], DONE);
	printf("exchanged %d\n", done);
	fflush(stdout);
}

static void note_losses(void)
{
	int host, i, left;

	while (pvm_nrecv(-1, LOST) > 0) {
		pvm_upkint(&host, 1, 1);
		for (i = left = 0; i < members; i++)
			if (pvm_tidtohost(tids[i]) != host)
				tids[left++] = tids[i];
		members = left;
		printf("host-deleted t%x\n", host);
		fflush(stdout);
	}
}

/* The next byte of the input, 0 if there is none yet, -1 at the end. */
static int input(void)
{
	struct timeval moment = { 0, 10000 };
	char byte;
	fd_set set;

	FD_ZERO(&set);
	FD_SET(0, &set);
	if (select(1, &set, NULL, NULL, &moment) != 1)
		return 0;
	return read(0, &byte, 1) == 1 ? byte : -1;
}

int main(int argc, char **argv)
{
	static int hosts[MAX];
	char *arguments[] = { "--member", NULL };
	struct pvmhostinfo *host;
	int count, i, byte;

	if (argc > 1 && strcmp(argv[1], "--member") == 0)
		return member();
	if (pvm_config(&count, NULL, &host) < 0 || count > MAX)
		return 2;
	for (i = 0; i < count; i++)
		hosts[i] = host[i].hi_tid;
	pvm_notify(PvmHostDelete, LOST, count, hosts);
	for (i = 0; i < count; i++)
		members += pvm_spawn(argv[0], arguments, PvmTaskHost, host[i].hi_name, 1, &tids[members]) == 1;
	for (i = 0; i < members; i++)
		printf("member t%x %d\n", pvm_tidtohost(tids[i]), hear(tids[i], HERE));
	printf("members %d\n", members);
	fflush(stdout);
	while ((byte = input()) >= 0) {
		note_losses();
		if (byte == '\n')
			turn();
	}
	order(0);
	pvm_exit();
	return 0;
}
