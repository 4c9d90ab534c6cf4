/* A tasker that starts this host's tasks in the daemon's place, and reports their ends. */
#include "show.h"
#include <pvmproto.h>
#include <sys/wait.h>

#define DAEMON ((int)0x80000000)

enum { HELLO = 1, GONE = 2, KIDS = 3, MOST = 100 };

static char program[4096];

static char *string(void)
{
	static char text[65536];

	text[0] = 0;
	pvm_upkstr(text);
	return strdup(text);
}

static int strings(char **list)
{
	int i, n = number();

	for (i = 0; i < n && i < MOST; i++)
		list[i] = string();
	list[i] = NULL;
	return n;
}

static void release(char **list)
{
	while (*list)
		free(*list++);
}

struct kid {
	int tid, pid;
};

/* Starts the task that the message just received describes. */
static struct kid start(void)
{
	char *args[MOST + 1], *env[MOST + 1], *path;
	struct kid kid;
	int flags, argc, instance, here, total;

	kid.tid = number();
	flags = number();
	path = string();
	argc = strings(args);
	strings(env);
	instance = number();
	here = number();
	total = number();
	printf("STTASK flags %d, the program %d, itself first %d, %d arguments, last %s, cookie first %d\n", flags,
	       !strcmp(path, program), !strcmp(args[0], path), argc, args[argc - 1], !strncmp(env[0], "PVMEPID=", 8));
	printf("instance %d of %d here, %d in all\n", instance, here, total);
	kid.pid = fork();
	if (kid.pid == 0) {
		for (argc = 0; env[argc]; argc++)
			putenv(env[argc]);
		execv(path, args);
		_exit(1);
	}
	free(path);
	release(args);
	release(env);
	return kid;
}

static void report(int tid, int status)
{
	int body[6] = {0, 0, 0, 0, 0, 0};

	body[0] = tid;
	body[1] = status;
	pvm_initsend(PvmDataDefault);
	pvm_pkint(body, 6, 1);
	SHOW(pvm_send(DAEMON, SM_TASKX));
}

/* The spawner is a process of its own, as the tasker must serve meanwhile; its exit code tells what it saw. */
static int spawner(void)
{
	char *args[] = {"kid", NULL};
	int tids[KIDS], i, sum = 0, n = pvm_spawn(program, args, PvmTaskDefault, NULL, KIDS, tids);

	pvm_notify(PvmTaskExit, GONE, KIDS, tids);
	for (i = 0; i < n; i++) {
		pvm_recv(tids[i], HELLO);
		sum += number();
	}
	for (i = 0; i < n; i++)
		pvm_recv(-1, GONE);
	pvm_exit();
	return 10 * n + sum;
}

static int kid(void)
{
	int *tids, good = pvm_parent() > 0 && pvm_siblings(&tids) == KIDS;

	tell(pvm_parent(), HELLO, good);
	pvm_exit();
	return 0;
}

int main(int argc, char **argv)
{
	struct kid kids[KIDS];
	int i, status, other;

	begin();
	if (!realpath(argv[0], program))
		return 1;
	if (argc > 1)
		return strcmp(argv[1], "kid") ? spawner() : kid();
	ID(pvm_mytid());
	SHOW(pvm_setopt(PvmResvTids, 1));
	SHOW(pvm_reg_tasker());
	other = fork();
	if (other == 0) {
		execl(program, program, "spawner", (char *)NULL);
		_exit(1);
	}
	for (i = 0; i < KIDS; i++) {
		pvm_recv(-1, SM_STTASK);
		kids[i] = start();
	}
	for (i = 0; i < KIDS; i++) {
		waitpid(kids[i].pid, &status, 0);
		printf("ended with %d\n", status);
		report(kids[i].tid, status);
	}
	waitpid(other, &status, 0);
	printf("the spawner saw %d\n", WEXITSTATUS(status));
	SHOW(pvm_reg_tasker());
	SHOW(pvm_exit());
	return 0;
}
