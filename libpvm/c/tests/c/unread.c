/* What was received stays what it is while more comes: beside it, before it is read, and half-way. */
#include "show.h"

enum { ORDER = 1, DATA, MORE, LAST, AGAIN, LENGTH = 1000, FLOOD = 300, ROUNDS = 4 };

static void send_numbered(int to, int tag, int first)
{
	int values[LENGTH / 4], i;

	for (i = 0; i < LENGTH / 4; i++)
		values[i] = first + i;
	pvm_initsend(PvmDataDefault);
	pvm_pkint(values, LENGTH / 4, 1);
	pvm_send(to, tag);
}

/* How many of `count` numbers from `at` on are not what was sent. */
static int wrong(int first, int at, int count)
{
	int values[LENGTH / 4], i, bad = 0;

	pvm_upkint(values, count, 1);
	for (i = 0; i < count; i++)
		bad += values[i] != first + at + i;
	return bad;
}

static void order(int child)
{
	pvm_initsend(PvmDataDefault);
	pvm_send(child, ORDER);
}

/* Many messages, of which the last says that all have come. */
static void flood(int to, int last)
{
	int i;

	for (i = 0; i < FLOOD; i++)
		send_numbered(to, i < FLOOD - 1 ? MORE : last, -i * 1000);
}

static void take_flood(int child, int last)
{
	int i, bad = 0;

	for (i = 0; i < FLOOD; i++) {
		pvm_recv(child, i < FLOOD - 1 ? MORE : last);
		bad += wrong(-i * 1000, 0, LENGTH / 4);
	}
	printf("%d wrong of the others\n", bad);
}

/* A message and a flood, and a flood more when that has been taken in: it lies where the message was. */
static int child(int parent)
{
	int round;

	for (round = 0; round < ROUNDS; round++) {
		pvm_recv(parent, ORDER);
		send_numbered(parent, DATA, round * 1000);
		flood(parent, LAST);
		pvm_recv(parent, ORDER);
		flood(parent, AGAIN);
	}
	pvm_exit();
	return 0;
}

/* All comes, but is not received. */
static void let_come(int child, int last)
{
	while (pvm_probe(child, last) == 0)
		;
}

int main(int argc, char **argv)
{
	int parent = pvm_parent(), tid, round, read;

	begin();
	if (parent > 0)
		return child(parent);
	RESULT(pvm_spawn(argv[0], NULL, PvmTaskDefault, NULL, 1, &tid));
	for (round = 0; round < ROUNDS; round++) {
		order(tid);
		/* So it is there when it is asked for, and not waited for. */
		usleep(20000);
		pvm_recv(tid, DATA);
		read = round % 2 * 100;
		printf("%d wrong of the first %d\n", wrong(round * 1000, 0, read), read);
		let_come(tid, LAST);
		order(tid);
		let_come(tid, AGAIN);
		printf("%d wrong of the rest\n", wrong(round * 1000, read, LENGTH / 4 - read));
		take_flood(tid, LAST);
		take_flood(tid, AGAIN);
	}
	pvm_exit();
	return 0;
}
