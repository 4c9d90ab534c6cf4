/*
 * What becomes of hosts that cannot be added. This task is the hoster: it never starts a daemon, but has the answers of
 * starts that failed.
 */
#include <pvm3.h>
#include <stdio.h>
#include <string.h>

#define SM_STHOST ((int)0x8004000f)
#define SM_STHOSTACK ((int)0x80040010)
/* An address where nobody is. */
#define NOBODY "192.0.2.99"

enum { RESULT = 1 };

static void say(const char *what, int number)
{
	printf("%s %d\n", what, number);
	fflush(stdout);
}

/* Adds a host, which takes as long as the hoster wants. */
static void add(void)
{
	char *names[] = { NOBODY };
	int results[2];

	results[1] = 0;
	results[0] = pvm_addhosts(names, 1, &results[1]);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(results, 2, 1);
	pvm_send(pvm_parent(), RESULT);
}

static void receive(int tid, int *numbers)
{
	pvm_recv(tid, RESULT);
	pvm_upkint(numbers, 2, 1);
}

static int child(char *program, char *what, int flags, char *where)
{
	char *arguments[] = { what, NULL };
	int tid = 0;

	pvm_spawn(program, arguments, flags, where, 1, &tid);
	return tid;
}

/* What a task that adds a host hears if its hoster answers with this line, or with nothing that can be read. */
static void answer(char *program, const char *line)
{
	char *names[] = { NOBODY };
	int tid, count = 1, host = 0, reply, result = 0, results[2] = { 1000, 1000 }, adder = child(program, "--add", PvmTaskHost, ".");
	struct pvmminfo info;

	tid = pvm_recv(-1, SM_STHOST);
	pvm_getminfo(tid, &info);
	pvm_upkint(&count, 1, 1);
	pvm_upkint(&host, 1, 1);
	printf("answer %s\n", line ? line : "that cannot be read");
	say("adding meanwhile", pvm_addhosts(names, 1, &result));
	reply = pvm_initsend(PvmDataDefault);
	pvm_pkint(&count, 1, 1);
	pvm_pkint(&host, 1, 1);
	if (line)
		pvm_pkstr((char *)line);
	info.ctx = 0;
	pvm_setminfo(reply, &info);
	pvm_send(info.src, SM_STHOSTACK);
	receive(adder, results);
	/* The original has no result for any host then, and we have one for each. */
	say("added", results[0] < 0 ? results[0] : results[1]);
}

int main(int argc, char **argv)
{
	static const char *const lines[] = {
		"PvmDSysErr", "PvmHostFail", "PvmBadVersion", "PvmNoMem", "PvmOutOfRes", "PvmNoHost", "no daemon",
	};
	unsigned i;

	if (pvm_mytid() < 0)
		return 1;
	pvm_setopt(PvmAutoErr, 0);
	if (argc > 1)
		add();
	else {
		pvm_setopt(PvmResvTids, 1);
		say("hoster", pvm_reg_hoster());
		for (i = 0; i < sizeof lines / sizeof lines[0]; i++)
			answer(argv[0], lines[i]);
		answer(argv[0], NULL);
		say("no hoster", pvm_reg_hoster());
	}
	pvm_exit();
	return 0;
}
