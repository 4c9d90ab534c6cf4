#include <stdio.h>
#include <stdlib.h>
#include <pvm3.h>
#include <pvm3x.h>

enum { NUMBER = 1, SUM = 2, LAST = 100 };

/* What the worker takes along. */
static int sum, moves;

static int save(void)
{
	pvm_pkint(&sum, 1, 1);
	return pvm_pkint(&moves, 1, 1);
}

static int restore(void)
{
	pvm_upkint(&sum, 1, 1);
	return pvm_upkint(&moves, 1, 1);
}

/* Adds up numbers until 0 comes. After a move the program begins again with main(), and gets here, too. */
static int work(int parent)
{
	int has_moved = pvm_migratable(save, restore), number;

	if (has_moved < 0)
		return 1;
	if (has_moved)
		moves++;
	while (pvm_recv(parent, NUMBER) > 0) { /* it moves in this call */
		pvm_upkint(&number, 1, 1);
		if (number == 0)
			return 0;
		sum += number;
		pvm_initsend(PvmDataDefault);
		pvm_pkint(&sum, 1, 1);
		pvm_pkint(&moves, 1, 1);
		pvm_send(parent, SUM);
	}
	return 1;
}

static void send_number(int worker, int number)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&number, 1, 1);
	pvm_send(worker, NUMBER);
}

/* Sends the numbers 1 to LAST, and moves the worker on the way. */
static int ask(const char *name)
{
	char *program = realpath(name, NULL); /* another host has another working directory */
	int worker;

	if (!program || pvm_spawn(program, NULL, PvmTaskDefault, "", 1, &worker) != 1)
		return 1;
	for (int number = 1; number <= LAST; number++) {
		send_number(worker, number);
		if (pvm_recv(worker, SUM) < 0)
			return 1;
		pvm_upkint(&sum, 1, 1);
		pvm_upkint(&moves, 1, 1);
		if (number == LAST / 2 && pvm_move(worker, NULL) < 0)
			return 1; /* the library has printed the reason */
	}
	send_number(worker, 0);
	printf("sum %d, moves %d\n", sum, moves);
	return 0;
}

int main(int argc, char **argv)
{
	int status, parent;

	if (pvm_mytid() < 0)
		return 1;
	parent = pvm_parent();
	status = parent == PvmNoParent ? ask(argv[0]) : work(parent);
	pvm_exit();
	return status;
}
