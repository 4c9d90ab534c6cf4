/* Many members, most of whose barriers and reductions go along trees; some die, leave and come back. */
#include "show.h"

#define MOST 512
extern int pvm_errno;
static int tids[MOST], n, me;

static void fail(const char *what, int got)
{
	char text[200];
	sprintf(text, "%d: %s %d", me, what, got);
	tell_text(tids[0], 99, text);
}

#define MUST(call, wanted) do { int got_ = (call); if (got_ != (wanted)) fail(#call, got_); } while (0)

static void ok(const char *what)
{
	if (me == 0) {
		while (pvm_nrecv(-1, 99) > 0) {
			char text[200];
			pvm_upkstr(text);
			printf("%s\n", text);
		}
		printf("%s\n", what);
	}
}

static void sums(int root, int members)
{
	int values[3] = {1, me, me == 3 ? 5 : 0};
	MUST(pvm_reduce(PvmSum, values, 3, PVM_INT, 10, "many", root), 0);
	if (pvm_getinst("many", pvm_mytid()) == root && values[0] != members)
		fail("members in the sum", values[0]);
}

/* All but those that are told to die, leave or come late wait for each other. */
static void child(int parent)
{
	int order, i, inst;
	for (;;) {
		pvm_recv(parent, 1);
		pvm_upkint(&order, 1, 1);
		switch (order) {
		case 0:
			pvm_exit();
			exit(0);
		case 1: /* join, and meet when all have */
			inst = pvm_joingroup("many");
			if (inst < 0)
				fail("join", inst);
			MUST(pvm_barrier("many", n), 0);
			break;
		case 2: /* meet often */
			for (i = 0; i < 30; i++)
				MUST(pvm_barrier("many", i % 2 ? n : -1), 0);
			break;
		case 3: /* reduce at several roots */
			for (i = 0; i < n; i += 7)
				sums(i, n);
			MUST(pvm_barrier("many", n), 0);
			break;
		case 4: /* somebody will never come */
			MUST(pvm_barrier("many", n), PvmNoInst);
			break;
		case 5: /* the rest meets, and reduces */
			MUST(pvm_barrier("many", n - 1), 0);
			sums(0, n - 1);
			MUST(pvm_barrier("many", n - 1), 0);
			break;
		case 6: /* leave and come back */
			MUST(pvm_lvgroup("many"), 0);
			inst = pvm_joingroup("many");
			if (inst < 0)
				fail("join again", inst);
			break;
		case 7: /* half of them by another count: the others are told */
			MUST(pvm_barrier("many", n / 2), 0);
			break;
		case 8: /* a broadcast of the parent */
			pvm_recv(parent, 20);
			pvm_upkint(&i, 1, 1);
			if (i != 42)
				fail("broadcast", i);
			MUST(pvm_barrier("many", -1), 0);
			break;
		case 9: /* meet once */
			MUST(pvm_barrier("many", n), 0);
			break;
		case 10: /* join */
			MUST(pvm_joingroup("many") >= 0, 1);
			break;
		}
		pvm_initsend(PvmDataDefault);
		pvm_send(parent, 2);
	}
}

static void order(int what, int first, int last)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&what, 1, 1);
	for (int i = first; i < last; i++)
		pvm_send(tids[i], 1);
}

static void wait_for(int count)
{
	while (count-- > 0)
		pvm_recv(-1, 2);
}

int main(int argc, char **argv)
{
	int parent = pvm_parent(), i;
	begin();
	pvm_setopt(PvmAutoErr, 0);
	if (parent > 0) {
		pvm_recv(parent, 3);
		pvm_upkint(&n, 1, 1);
		pvm_upkint(tids, n, 1);
		while (tids[me] != pvm_mytid())
			me++;
		child(parent);
	}
	if (scanf("%d", &n) != 1 || n > MOST)
		return 1;
	tids[0] = pvm_mytid();
	if (pvm_spawn(argv[0], 0, PvmTaskDefault, 0, n - 1, tids + 1) != n - 1) {
		printf("no children\n");
		return 1;
	}
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	pvm_pkint(tids, n, 1);
	pvm_mcast(tids + 1, n - 1, 3);

	MUST(pvm_joingroup("many"), 0);
	order(1, 1, n);
	MUST(pvm_barrier("many", n), 0);
	wait_for(n - 1);
	MUST(pvm_gsize("many"), n);
	ok("all are there");

	order(2, 1, n);
	for (i = 0; i < 30; i++)
		MUST(pvm_barrier("many", i % 2 ? n : -1), 0);
	wait_for(n - 1);
	ok("they have met");

	order(3, 1, n);
	for (i = 0; i < n; i += 7)
		sums(i, n);
	MUST(pvm_barrier("many", n), 0);
	wait_for(n - 1);
	ok("they have reduced");

	order(8, 1, n);
	i = 42;
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&i, 1, 1);
	MUST(pvm_bcast("many", 20), 0);
	MUST(pvm_barrier("many", -1), 0);
	wait_for(n - 1);
	ok("they have heard");

	for (i = 0; i < 3; i++) {
		order(6, 1 + i * 2, 4 + i * 2);
		wait_for(3);
		order(2, 1, n);
		for (int k = 0; k < 30; k++)
			MUST(pvm_barrier("many", k % 2 ? n : -1), 0);
		wait_for(n - 1);
	}
	ok("some have left and come back");

	order(7, 1, n / 2);
	MUST(pvm_barrier("many", n / 2), 0);
	wait_for(n / 2 - 1);
	order(2, 1, n);
	for (i = 0; i < 30; i++)
		MUST(pvm_barrier("many", i % 2 ? n : -1), 0);
	wait_for(n - 1);
	ok("half of them have met, then all");

	/* The last one dies while the others wait for it. */
	order(4, 1, n - 1);
	usleep(200000);
	pvm_kill(tids[n - 1]);
	MUST(pvm_barrier("many", n), PvmNoInst);
	wait_for(n - 2);
	MUST(pvm_gsize("many"), n - 1);
	ok("one has died, and nobody waits for it");

	order(5, 1, n - 1);
	MUST(pvm_barrier("many", n - 1), 0);
	MUST(pvm_getinst("many", tids[0]) >= 0, 1);
	sums(0, n - 1);
	MUST(pvm_barrier("many", n - 1), 0);
	wait_for(n - 2);
	ok("the rest goes on");

	/* Another takes its place. */
	if (pvm_spawn(argv[0], 0, PvmTaskDefault, 0, 1, tids + n - 1) != 1)
		printf("no child\n");
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	pvm_pkint(tids, n, 1);
	pvm_send(tids[n - 1], 3);
	order(10, n - 1, n);
	wait_for(1);
	order(9, 1, n);
	MUST(pvm_barrier("many", n), 0);
	wait_for(n - 1);
	ok("another has come");
	order(0, 1, n);
	pvm_exit();
	return 0;
}
