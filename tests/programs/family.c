/*
 * family N: spawns N tasks, each of which starts a child, a child in a session of its own and a daemon, and a server that asks to
 * outlive it; prints `family TID PID PID PID PID SERVER`, for each, the task's own process first, and waits for words: `kill` kills
 * the first task, `leave` has the second end by itself.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIDS = 5, MAX = 10 };

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

static void start_server(void)
{
	char end[20];

	if (fork() != 0)
		return;
	sprintf(end, "%d", tell[1]);
	setenv("PVM_FAMILY", "none", 1);
	execlp("sh", "sh", "-c", "echo $$ >&$0; exec sleep 1000", end, (char *)0);
	_exit(1);
}

static int member(void)
{
	int pids[PIDS], i;
	char word[20];
	ssize_t length;

	pipe(tell);
	pids[0] = getpid();
	start(0, 0);
	start(1, 0);
	start(1, 1);
	for (i = 1; i < 4; i++)
		read(tell[0], &pids[i], sizeof pids[i]);
	start_server();
	length = read(tell[0], word, sizeof word - 1);
	word[length > 0 ? length : 0] = 0;
	pids[4] = atoi(word);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(pids, PIDS, 1);
	pvm_send(pvm_parent(), 1);
	pvm_recv(pvm_parent(), -1);
	pvm_exit();
	return 0;
}

int main(int argc, char **argv)
{
	int tids[MAX], pids[PIDS], tid, i, count;
	char word[20];

	if (argc < 2)
		return member();
	count = pvm_spawn("family", NULL, PvmTaskDefault, NULL, atoi(argv[1]), tids);
	for (i = 0; i < count; i++) {
		pvm_bufinfo(pvm_recv(-1, 1), NULL, NULL, &tid);
		pvm_upkint(pids, PIDS, 1);
		printf("family t%x %d %d %d %d %d\n", tid, pids[0], pids[1], pids[2], pids[3], pids[4]);
		if (i < 2)
			tids[i] = tid;
	}
	fflush(stdout);
	while (scanf("%19s", word) == 1) {
		if (strcmp(word, "kill") == 0) {
			pvm_kill(tids[0]);
		} else {
			pvm_initsend(PvmDataDefault);
			pvm_send(tids[1], 1);
		}
	}
	pvm_recv(-1, 2);
	return 0;
}
