/*
 * batch N [hold] [file]: spawns N copies of itself (or of file) in one pvm_spawn. Each tells where it runs; with
 * `hold` they then wait until all have been heard.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HERE = 1, GO = 2, MAX = 10000 };

static int work(int hold)
{
	int pid = getpid();

	pvm_initsend(PvmDataDefault);
	pvm_pkint(&pid, 1, 1);
	pvm_send(pvm_parent(), HERE);
	if (hold)
		pvm_recv(pvm_parent(), GO);
	pvm_exit();
	return 0;
}

int main(int argc, char **argv)
{
	static int tids[MAX];
	char *arguments[] = { "--work", NULL, NULL };
	char *file = argv[0];
	int count, started, hold, i;

	if (argc > 1 && strcmp(argv[1], "--work") == 0)
		return work(argc > 2);
	count = argc > 1 ? atoi(argv[1]) : 1;
	hold = argc > 2 && strcmp(argv[2], "hold") == 0;
	if (argc > 3)
		file = argv[3];
	if (count < 1 || count > MAX)
		return 2;
	if (hold)
		arguments[1] = "hold";
	started = pvm_spawn(file, arguments, PvmTaskDefault, "", count, tids);
	printf("started %d\n", started);
	for (i = 0; i < count; i++) {
		if (tids[i] < 0)
			printf("failed %d\n", tids[i]);
		else
			printf("tid t%x\n", tids[i]);
	}
	fflush(stdout);
	for (i = 0; i < started; i++) {
		int tid, pid = 0;

		pvm_bufinfo(pvm_recv(-1, HERE), NULL, NULL, &tid);
		pvm_upkint(&pid, 1, 1);
		printf("here t%x t%x %d\n", tid, pvm_tidtohost(tid), pid);
	}
	if (hold && started > 0) {
		pvm_initsend(PvmDataDefault);
		pvm_mcast(tids, started, GO);
	}
	printf("done\n");
	pvm_exit();
	return 0;
}
