/*
 * family N: spawns N tasks, each of which starts a child, a child in a session of its own, a daemon, a daemon without environment
 * and a child without environment, and, of those that are to outlive it, a server that asks for it and, if it may, a process of
 * another user. Prints `family TID PID PID PID PID PID PID SERVER OTHER` for each, the task's own process first, 0 for one that
 * there is not, and waits for words: `kill`, `crash` (SIGKILL) and `leave` have the first, second or third task end, the last by itself.
 */
#include <pvm3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIDS = 8, BARE = 4, SERVER = 6, OTHER = 7, NOBODY = 65534, MAX = 10 };

static int tell[2];

static void stay(void)
{
	int pid = getpid();

	write(tell[1], &pid, sizeof pid);
	for (;;)
		pause();
}

static void start(int is_apart, int is_orphan)
{
	if (fork() != 0)
		return;
	if (is_apart)
		setsid();
	if (is_orphan && fork() != 0)
		_exit(0);
	stay();
}

/* A shell that tells its own process id, and stays. */
static void become_shell(char **environment)
{
	char end[20], *line[] = {"sh", "-c", "echo $$ >&$0; exec /bin/sleep 1000", end, NULL};

	sprintf(end, "%d", tell[1]);
	execve("/bin/sh", line, environment);
	_exit(1);
}

static int told(void)
{
	char word[20];
	ssize_t length = read(tell[0], word, sizeof word - 1);

	word[length > 0 ? length : 0] = 0;
	return atoi(word);
}

static int start_shell(int is_orphan, int user, char *entry)
{
	char *environment[] = {entry, NULL};

	if (fork() == 0) {
		if (is_orphan) {
			setsid();
			if (fork() != 0)
				_exit(0);
		}
		if (user != 0 && setuid(user) != 0)
			_exit(1);
		become_shell(environment);
	}
	return told();
}

static int member(void)
{
	int pids[PIDS] = {0}, i;

	pipe(tell);
	pids[0] = getpid();
	start(0, 0);
	start(1, 0);
	start(1, 1);
	for (i = 1; i < BARE; i++)
		read(tell[0], &pids[i], sizeof pids[i]);
	pids[BARE] = start_shell(1, 0, NULL);
	pids[BARE + 1] = start_shell(0, 0, NULL);
	pids[SERVER] = start_shell(1, 0, "PVM_FAMILY=none");
	if (geteuid() == 0)
		pids[OTHER] = start_shell(1, NOBODY, NULL);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(pids, PIDS, 1);
	pvm_send(pvm_parent(), 1);
	pvm_recv(pvm_parent(), -1);
	pvm_exit();
	return 0;
}

int main(int argc, char **argv)
{
	int tids[MAX], pids[PIDS], tid, i, k, count;
	char word[20];

	if (argc < 2)
		return member();
	count = pvm_spawn("family", NULL, PvmTaskDefault, NULL, atoi(argv[1]), tids);
	for (i = 0; i < count; i++) {
		pvm_bufinfo(pvm_recv(-1, 1), NULL, NULL, &tid);
		pvm_upkint(pids, PIDS, 1);
		printf("family t%x", tid);
		for (k = 0; k < PIDS; k++)
			printf(" %d", pids[k]);
		printf("\n");
		tids[i] = tid;
	}
	fflush(stdout);
	while (scanf("%19s", word) == 1) {
		if (strcmp(word, "kill") == 0) {
			pvm_kill(tids[0]);
		} else if (strcmp(word, "crash") == 0) {
			pvm_sendsig(tids[1], SIGKILL);
		} else {
			pvm_initsend(PvmDataDefault);
			pvm_send(tids[2], 1);
		}
	}
	pvm_recv(-1, 2);
	return 0;
}
