/*
 * tied: has a task on host h2 spawn two on host h3, one of them with PvmTaskTied, and tells which of them have ended when h2 is lost.
 */
#include <pvm3.h>
#include <pvm3x.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TIDS = 1, ENDED = 2 };

/* On h2. */
static int spawner(char *program)
{
	char *arguments[] = { "sleeper", NULL };
	int tids[2];

	pvm_spawn(program, arguments, PvmTaskHost | PvmTaskTied, "h3", 1, &tids[0]);
	pvm_spawn(program, arguments, PvmTaskHost, "h3", 1, &tids[1]);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(tids, 2, 1);
	pvm_send(pvm_parent(), TIDS);
	pause();
	return 1;
}

static int master(char *program)
{
	char *arguments[] = { "spawner", NULL };
	int tids[2], ended;

	if (pvm_spawn(program, arguments, PvmTaskHost, "h2", 1, &tids[0]) != 1)
		return 1;
	pvm_recv(-1, TIDS);
	pvm_upkint(tids, 2, 1);
	pvm_notify(PvmTaskExit, ENDED, 2, tids);
	puts("ready");
	fflush(stdout);
	pvm_recv(-1, ENDED);
	pvm_upkint(&ended, 1, 1);
	printf("%s has ended, the other %s\n", ended == tids[0] ? "the tied one" : "the free one",
	       pvm_pstat(ended == tids[0] ? tids[1] : tids[0]) == PvmOk ? "goes on" : "has ended, too");
	fflush(stdout);
	pvm_kill(tids[1]);
	pvm_exit();
	return 0;
}

int main(int argc, char **argv)
{
	if (pvm_mytid() < 0)
		return 1;
	if (argc > 1 && strcmp(argv[1], "spawner") == 0)
		return spawner(argv[0]);
	if (argc > 1) {
		pause();
		return 0;
	}
	return master(argv[0]);
}
