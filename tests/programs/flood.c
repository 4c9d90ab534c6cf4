/*
 * flood exchange SIZE: this task and one it spawns send each other SIZE bytes at the same time, then both receive.
 * flood trade COUNT SIZE: the same with COUNT messages each, all of which are sent before the first is received.
 * flood pour COUNT SIZE: sends COUNT messages of SIZE bytes to a spawned task that at first does not listen, and then
 * checks that all come, in order and whole.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DATA = 1, RESULT = 2 };

static char *data;

static void fill(int size, int seed)
{
	int i;

	for (i = 0; i < size; i++)
		data[i] = (char)(i * 31 + i / 4093 + seed);
}

static int is_filled(int size, int seed)
{
	int i;

	for (i = 0; i < size; i++) {
		if (data[i] != (char)(i * 31 + i / 4093 + seed))
			return 0;
	}
	return 1;
}

/* Both halves of an exchange; tells whether what came is right. */
static int exchange(int other, int size, int mine, int theirs)
{
	fill(size, mine);
	pvm_initsend(PvmDataDefault);
	pvm_pkbyte(data, size, 1);
	if (pvm_send(other, DATA) < 0)
		return 0;
	memset(data, 0, size);
	return pvm_recv(other, DATA) > 0 && pvm_upkbyte(data, size, 1) == 0 && is_filled(size, theirs);
}

/* Sends messages that begin with this one. */
static int pour(int other, int count, int size, int first)
{
	int i;

	for (i = first; i < first + count; i++) {
		fill(size, i);
		pvm_initsend(PvmDataDefault);
		pvm_pkbyte(data, size, 1);
		if (pvm_send(other, DATA) < 0)
			return 0;
	}
	return 1;
}

static int drink(int other, int count, int size, int first)
{
	int i;

	for (i = first; i < first + count; i++) {
		if (pvm_recv(other, DATA) <= 0 || pvm_upkbyte(data, size, 1) < 0 || !is_filled(size, i))
			return 0;
	}
	return 1;
}

static int trade(int other, int count, int size, int mine, int theirs)
{
	return pour(other, count, size, mine) && drink(other, count, size, theirs);
}

/* What a task does with its partner, as the first word says; the parent's part and the child's. */
static int act(const char *what, int other, int count, int size, int parent)
{
	int mine = parent ? 1 : 2;

	if (strcmp(what, "exchange") == 0)
		return exchange(other, size, mine, 3 - mine);
	if (strcmp(what, "trade") == 0)
		return trade(other, count, size, 1000 * mine, 1000 * (3 - mine));
	if (parent)
		return pour(other, count, size, 0);
	sleep(2);
	return drink(other, count, size, 0);
}

static void tell(int result)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&result, 1, 1);
	pvm_send(pvm_parent(), RESULT);
}

int main(int argc, char **argv)
{
	int parent, count, size, hosts, where, other, mine, theirs = 0;

	if (argc < 3)
		return 2;
	count = argc > 3 ? atoi(argv[2]) : 0;
	size = atoi(argv[argc - 1]);
	data = malloc(size);
	parent = pvm_parent();
	if (parent > 0) {
		tell(act(argv[1], parent, count, size, 0));
		pvm_exit();
		return 0;
	}
	/* On another host, if there is one. */
	pvm_config(&hosts, NULL, NULL);
	where = hosts > 1 ? PvmTaskHost | PvmHostCompl : PvmTaskDefault;
	if (pvm_spawn(argv[0], argv + 1, where, ".", 1, &other) != 1)
		return 3;
	mine = act(argv[1], other, count, size, 1);
	pvm_recv(other, RESULT);
	pvm_upkint(&theirs, 1, 1);
	printf("mine %d theirs %d\n", mine, theirs);
	pvm_exit();
	return 0;
}
