/*
 * notify.c - survive the death of workers: a worker that dies before it answers is replaced.
 *
 * Build:  cc -o notify notify.c $(pkg-config --cflags --libs pvm3)
 * Run:    pvm run --hosts 2 ./notify
 *         or, while a daemon runs:  ./notify
 *
 * Each of eight items is squared by a worker of its own. Workers for every third item kill themselves at the first
 * attempt, as a crash would.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pvm3.h>

enum { ITEMS = 8, WORK = 1, ANSWER = 2, EXITED = 3 };

/* Who works on each item, how often that was tried, and what came out. */
struct item {
	int tid;
	int attempts;
	int done;
	int square;
};

static int square(int parent)
{
	int number, attempt;

	pvm_recv(parent, WORK);
	pvm_unpackf("%d %d", &number, &attempt);
	if (number % 3 == 0 && attempt == 1)
		raise(SIGKILL);

	pvm_initsend(PvmDataDefault);
	pvm_packf("%d %d", number, number * number);
	pvm_send(parent, ANSWER);
	return 0;
}

/* Starts a worker for an item and asks to be told when it ends, however it ends. */
static int start(char *program, int number, struct item *item)
{
	if (pvm_spawn(program, NULL, PvmTaskDefault, NULL, 1, &item->tid) != 1) {
		fprintf(stderr, "cannot start %s: error %d\n", program, item->tid);
		return -1;
	}
	item->attempts++;
	pvm_notify(PvmTaskExit, EXITED, 1, &item->tid);

	pvm_initsend(PvmDataDefault);
	pvm_packf("%d %d", number, item->attempts);
	pvm_send(item->tid, WORK);
	return 0;
}

/* A worker ended. If it owed an answer, its item gets another one. */
static int replace(char *program, struct item *items)
{
	int tid;

	pvm_upkint(&tid, 1, 1);
	for (int i = 0; i < ITEMS; i++) {
		if (items[i].tid != tid || items[i].done)
			continue;
		printf("task t%x died over item %d, starting another\n", tid, i);
		return start(program, i, &items[i]);
	}
	return 0;
}

static int supervise(const char *name)
{
	struct item items[ITEMS] = { { 0 } };
	char *program = realpath(name, NULL);
	int done = 0;

	if (!program && !(program = strdup(name)))
		return 1;
	for (int i = 0; i < ITEMS; i++)
		if (start(program, i, &items[i]) < 0)
			return 1;

	while (done < ITEMS) {
		int number, result, tag;

		pvm_bufinfo(pvm_recv(-1, -1), NULL, &tag, NULL);
		if (tag == ANSWER) {
			pvm_unpackf("%d %d", &number, &result);
			items[number].square = result;
			done += !items[number].done;
			items[number].done = 1;
		} else if (tag == EXITED && replace(program, items) < 0) {
			return 1;
		}
	}

	for (int i = 0; i < ITEMS; i++)
		printf("%d squared is %d, attempts: %d\n", i, items[i].square, items[i].attempts);
	free(program);
	return 0;
}

int main(int argc, char **argv)
{
	if (pvm_mytid() < 0)
		return 1;

	(void)argc;
	int parent = pvm_parent();
	int status = parent == PvmNoParent ? supervise(argv[0]) : square(parent);

	pvm_exit();
	return status;
}
