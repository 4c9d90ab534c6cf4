/* Who sends 64-bit integers in XDR is told, once, of receivers that lose half of them. Reads the receivers' programs. */
#include "show.h"

enum { READY = 1, LONGS = 2, GOT = 3, TIMES = 2 };

static void child(void)
{
	int parent = pvm_parent(), i;
	long values[2];

	pvm_initsend(PvmDataDefault);
	pvm_send(parent, READY);
	for (i = 0; i < TIMES + 2; i++) {
		pvm_recv(parent, LONGS);
		pvm_upklong(values, 2, 1);
		pvm_initsend(PvmDataRaw);
		pvm_pklong(values, 2, 1);
		pvm_send(parent, GOT);
	}
	pvm_exit();
}

static void answers(int kid)
{
	long values[2] = {0, 0};

	pvm_recv(kid, GOT);
	pvm_upklong(values, 2, 1);
	printf("it has got %ld and %ld\n", values[0], values[1]);
}

static void try_one(char *program)
{
	static long small[] = {1, -1}, large[] = {1, 0x123456789abL};
	int kid, i;

	if (pvm_spawn(program, (char *[]){"child", NULL}, 0, NULL, 1, &kid) != 1)
		return;
	pvm_recv(kid, READY);
	pvm_initsend(PvmDataDefault);
	pvm_pklong(small, 2, 1);
	pvm_send(kid, LONGS);
	answers(kid);
	pvm_initsend(PvmDataDefault);
	pvm_pklong(large, 2, 1);
	for (i = 0; i < TIMES; i++) {
		pvm_send(kid, LONGS);
		answers(kid);
	}
	pvm_mcast(&kid, 1, LONGS);
	answers(kid);
}

int main(int argc, char **argv)
{
	char program[4096];

	begin();
	if (argc > 1) {
		child();
		return 0;
	}
	pvm_mytid();
	while (fgets(program, sizeof program, stdin)) {
		program[strcspn(program, "\n")] = 0;
		printf("a receiver\n");
		try_one(program);
	}
	pvm_exit();
	return 0;
}
