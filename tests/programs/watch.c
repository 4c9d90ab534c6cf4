/*
 * watch N: spawns N sleepers, asks to be told of the end of each, of the loss of each host and of new hosts, and
 * prints what it is told, until its standard input ends; then it kills the sleepers that are left.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

enum { HERE = 1, TASK_EXIT = 2, HOST_DELETE = 3, HOST_ADD = 4, MAX = 1000 };

static int sleeper(void)
{
	int pid = getpid();

	pvm_initsend(PvmDataDefault);
	pvm_pkint(&pid, 1, 1);
	pvm_send(pvm_parent(), HERE);
	pvm_recv(pvm_parent(), -1);
	return 0;
}

static void tell(void)
{
	int tag, tid, value, count;
	int message = pvm_nrecv(-1, -1);

	if (message <= 0)
		return;
	pvm_bufinfo(message, NULL, &tag, &tid);
	switch (tag) {
	case HERE:
		pvm_upkint(&value, 1, 1);
		printf("sleeper t%x t%x %d\n", tid, pvm_tidtohost(tid), value);
		break;
	case TASK_EXIT:
		pvm_upkint(&value, 1, 1);
		printf("exit t%x\n", value);
		break;
	case HOST_DELETE:
		pvm_upkint(&value, 1, 1);
		printf("host-deleted t%x\n", value);
		break;
	case HOST_ADD:
		for (pvm_upkint(&count, 1, 1); count > 0; count--) {
			pvm_upkint(&value, 1, 1);
			printf("host-added t%x\n", value);
		}
		break;
	default:
		printf("unknown %d\n", tag);
	}
	fflush(stdout);
}

static int input_ended(void)
{
	struct timeval moment = { 0, 10000 };
	char piece[16];
	fd_set set;

	FD_ZERO(&set);
	FD_SET(0, &set);
	return select(1, &set, NULL, NULL, &moment) == 1 && read(0, piece, sizeof piece) <= 0;
}

int main(int argc, char **argv)
{
	static int tids[MAX];
	static int hosts[MAX];
	char *arguments[] = { "--sleeper", NULL };
	struct pvmhostinfo *host;
	int count, started, nhost, narch, i;

	if (argc > 1 && strcmp(argv[1], "--sleeper") == 0)
		return sleeper();
	count = argc > 1 ? atoi(argv[1]) : 1;
	if (count < 1 || count > MAX || pvm_config(&nhost, &narch, &host) < 0)
		return 2;
	for (i = 0; i < nhost; i++)
		hosts[i] = host[i].hi_tid;
	pvm_notify(PvmHostDelete, HOST_DELETE, nhost, hosts);
	pvm_notify(PvmHostAdd, HOST_ADD, -1, NULL);
	started = pvm_spawn(argv[0], arguments, PvmTaskDefault, "", count, tids);
	printf("started %d\n", started);
	fflush(stdout);
	if (started < 1)
		return 1;
	pvm_notify(PvmTaskExit, TASK_EXIT, started, tids);
	while (!input_ended())
		tell();
	for (i = 0; i < started; i++)
		pvm_kill(tids[i]);
	pvm_exit();
	return 0;
}
