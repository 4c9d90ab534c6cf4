/*
 * farm WORKERS ITEMS: adds up what its workers make of ITEMS numbers. Workers may end at any moment, hosts too: the farm
 * learns of it from pvm_notify, gives their work to others, and starts new workers when it has too few.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORK = 1, RESULT = 2, ENDED = 3, MAX_WORKERS = 64, MAX_ITEMS = 100000 };
enum { TO_DO = -1, DONE = -2 };

struct worker {
	int tid;
	int item;
};

static struct worker workers[MAX_WORKERS];
static int wanted, count;
/* TO_DO, DONE, or who has it. */
static int state[MAX_ITEMS];
static int items, done;
static long sum;

static long make(int item)
{
	return (long)item * item % 1009;
}

static int work(int parent)
{
	for (;;) {
		int item;
		long made;

		if (pvm_recv(parent, WORK) < 0 || pvm_upkint(&item, 1, 1) < 0)
			return 1;
		if (item < 0)
			break;
		usleep(1000 * (5 + item % 20));
		made = make(item);
		pvm_initsend(PvmDataDefault);
		pvm_pkint(&item, 1, 1);
		pvm_pklong(&made, 1, 1);
		if (pvm_send(parent, RESULT) < 0)
			return 1;
	}
	pvm_exit();
	return 0;
}

static int next_item(void)
{
	int item;

	for (item = 0; item < items; item++)
		if (state[item] == TO_DO)
			return item;
	return -1;
}

static void employ(struct worker *worker)
{
	worker->item = next_item();
	if (worker->item < 0)
		return;
	state[worker->item] = worker->tid;
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&worker->item, 1, 1);
	pvm_send(worker->tid, WORK);
}

static void hire(const char *program)
{
	char *arguments[] = { "--work", NULL };
	int tids[MAX_WORKERS], started, i;

	started = pvm_spawn((char *)program, arguments, PvmTaskDefault, "", wanted - count, tids);
	for (i = 0; i < started; i++) {
		workers[count].tid = tids[i];
		employ(&workers[count]);
		count++;
	}
	if (started > 0)
		pvm_notify(PvmTaskExit, ENDED, started, tids);
	else
		usleep(100000);
}

static void take_result(int tid)
{
	int item, i;
	long made;

	pvm_upkint(&item, 1, 1);
	pvm_upklong(&made, 1, 1);
	if (item < 0 || item >= items || state[item] != tid) {
		printf("item %d from t%x is state %d\n", item, tid, item < 0 || item >= items ? 0 : state[item]);
		exit(1);
	}
	state[item] = DONE;
	done++;
	sum += made;
	for (i = 0; i < count; i++)
		if (workers[i].tid == tid)
			employ(&workers[i]);
}

static void take_end(void)
{
	int tid, i;

	pvm_upkint(&tid, 1, 1);
	for (i = 0; i < count && workers[i].tid != tid; i++)
		;
	if (i == count) {
		printf("t%x has ended twice\n", tid);
		exit(1);
	}
	for (int item = 0; item < items; item++)
		if (state[item] == tid)
			state[item] = TO_DO;
	workers[i] = workers[--count];
	/* Whoever had nothing to do gets what is free again. */
	for (i = 0; i < count; i++)
		if (workers[i].item < 0)
			employ(&workers[i]);
}

static void dismiss(void)
{
	int end = -1, i;

	for (i = 0; i < count; i++) {
		pvm_initsend(PvmDataDefault);
		pvm_pkint(&end, 1, 1);
		pvm_send(workers[i].tid, WORK);
	}
}

int main(int argc, char **argv)
{
	long expected = 0;
	int i, parent;

	if (argc > 1 && strcmp(argv[1], "--work") == 0) {
		parent = pvm_parent();
		return parent < 0 ? 1 : work(parent);
	}
	if (argc != 3)
		return 2;
	wanted = atoi(argv[1]);
	items = atoi(argv[2]);
	if (wanted < 1 || wanted > MAX_WORKERS || items < 1 || items > MAX_ITEMS)
		return 2;
	for (i = 0; i < items; i++) {
		state[i] = TO_DO;
		expected += make(i);
	}
	while (done < items) {
		int tag, tid;

		if (count < wanted)
			hire(argv[0]);
		if (count == 0)
			continue;
		if (pvm_bufinfo(pvm_recv(-1, -1), NULL, &tag, &tid) < 0)
			return 1;
		if (tag == RESULT)
			take_result(tid);
		else if (tag == ENDED)
			take_end();
	}
	dismiss();
	printf("sum %s\n", sum == expected ? "right" : "wrong");
	pvm_exit();
	return 0;
}
