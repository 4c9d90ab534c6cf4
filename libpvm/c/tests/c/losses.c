/* Members that reduce, gather, scatter and meet, while one of them is lost at a random moment: it leaves, leaves and
 * comes back at once, exits or is killed. Nobody waits for ever, what is computed is right or an error, and afterwards the group is as good as new.
 *
 * Input: members, rounds, seed. */
#include "show.h"
#include <signal.h>
#include <time.h>

#define MOST 20
#define GROUP "losses"
enum { ROUND = 1, DONE = 2, FAILED = 3, JOINED = 4, SPREAD = 5, GONE = 6 };
enum { LEAVES, BLINKS, EXITS, IS_KILLED, WAYS, NOBODY = -1 };
enum { QUIET, DISTURBED, BACK, STOP };
static int parent, me, n;

static void fail(const char *what, int round, int got)
{
	char text[200];
	sprintf(text, "%d, round %d: %s %d", me, round, what, got);
	tell_text(parent, FAILED, text);
}

/* What comes of a call while somebody is lost. */
static int may_be(int code, const char *what, int round)
{
	if (code != 0 && code != PvmNoInst)
		fail(what, round, code);
	return code == 0;
}

/* The sum has each member's bit at most once, and nothing of another round. */
static void check_sum(int round, int *values, int missing)
{
	int all = (1 << n) - 1, lacking = all & ~values[0];
	if ((values[0] & ~all) || (lacking && lacking != missing))
		fail("members in the sum", round, values[0]);
	if (values[1] != round * __builtin_popcount(values[0]))
		fail("rounds in the sum", round, values[1]);
}

/* 0 if this member has left. */
static int compute(int round, int root, int quiet, int lost, int way, int moment)
{
	int step, i, own = quiet ? 0 : me == lost, missing = lost == NOBODY ? 0 : 1 << lost;
	for (step = 0; step < 4; step++) {
		int values[2], gathered[2 * MOST], ok;
		values[0] = 1 << me;
		values[1] = round;
		if (own && step == moment && (way == LEAVES || way == BLINKS)) {
			pvm_lvgroup(GROUP);
			if (way == LEAVES)
				return 0;
			usleep(rand() % 3000);
			i = pvm_joingroup(GROUP);
			if (i < 0)
				fail("comes back", round, i);
		}
		if (own && step == moment && way == EXITS) {
			pvm_exit();
			exit(0);
		}
		switch (step) {
		case 0:
			ok = may_be(pvm_reduce(PvmSum, values, 2, PVM_INT, 10, GROUP, root), "reduce", round);
			if (ok && pvm_getinst(GROUP, pvm_mytid()) == root)
				check_sum(round, values, quiet ? 0 : missing);
			break;
		case 1:
			ok = may_be(pvm_gather(gathered, values, 2, PVM_INT, 11, GROUP, root), "gather", round);
			if (ok && pvm_getinst(GROUP, pvm_mytid()) == root)
				for (i = 0; i < n - !quiet; i++)
					if (gathered[2 * i + 1] != round)
						fail("gathered", round, gathered[2 * i + 1]);
			break;
		case 2:
			for (i = 0; i < n; i++)
				gathered[i] = round;
			ok = may_be(pvm_scatter(values, gathered, 1, PVM_INT, 12, GROUP, root), "scatter", round);
			if (ok && values[0] != round)
				fail("scattered", round, values[0]);
			break;
		case 3:
			/* On the way down an inner member of the tree. */
			values[1] = round;
			ok = may_be(pvm_reduce(PvmSum, values, 2, PVM_INT, 13, GROUP, 0), "second reduce", round);
			break;
		}
		if (!ok && quiet)
			fail("not as good as new", round, step);
	}
	return 1;
}

static void join(void)
{
	int instance = pvm_joingroup(GROUP);
	tell(parent, JOINED, instance);
}

static int child(void)
{
	for (;;) {
		int order[6], i, code;
		pvm_recv(parent, ROUND);
		pvm_upkint(order, 6, 1);
		if (order[0] == STOP)
			break;
		if (order[0] == BACK) {
			join();
			continue;
		}
		srand(order[1] * 100 + me);
		if (order[0] == DISTURBED) {
			usleep(rand() % 2000);
			/* All, or those who are left. */
			int count = order[4] == BLINKS ? n : -1;
			if (compute(order[1], order[2], 0, order[3], order[4], order[5])
					&& (code = pvm_barrier(GROUP, count)) != 0)
				fail("barrier", order[1], code);
		} else {
			if ((code = pvm_barrier(GROUP, n)) != 0)
				fail("barrier of all", order[1], code);
			compute(order[1], order[2], 1, NOBODY, 0, 0);
			if (pvm_getinst(GROUP, pvm_mytid()) == order[2]) {
				pvm_initsend(PvmDataDefault);
				pvm_pkint(&order[1], 1, 1);
				pvm_bcast(GROUP, SPREAD);
			} else {
				pvm_recv(-1, SPREAD);
				pvm_upkint(&i, 1, 1);
				if (i != order[1])
					fail("broadcast", order[1], i);
			}
			if ((code = pvm_barrier(GROUP, -1)) != 0)
				fail("last barrier", order[1], code);
		}
		tell(parent, DONE, me);
	}
	pvm_exit();
	return 0;
}

static int tids[MOST], failures;

static void start(char *program, int index)
{
	char *args[3], count[12], own[12];
	sprintf(count, "%d", n);
	sprintf(own, "%d", index);
	args[0] = count;
	args[1] = own;
	args[2] = NULL;
	if (pvm_spawn(program, args, PvmTaskDefault, NULL, 1, &tids[index]) != 1)
		printf("no child\n");
	pvm_notify(PvmTaskExit, GONE, 1, &tids[index]);
}

static int lowest_free(void)
{
	int instance = 0;
	while (pvm_gettid(GROUP, instance) > 0)
		instance++;
	return instance;
}

static void joined(int index, int expected)
{
	int instance;
	pvm_recv(tids[index], JOINED);
	pvm_upkint(&instance, 1, 1);
	if (instance != expected) {
		printf("instance %d, not the lowest free one, %d\n", instance, expected);
		failures++;
	}
}

static void order(int *tids, int count, int what, int round, int root, int lost, int way, int moment)
{
	int order[6] = {what, round, root, lost, way, moment};
	pvm_initsend(PvmDataDefault);
	pvm_pkint(order, 6, 1);
	pvm_mcast(tids, count, ROUND);
}

/* Waits until `count` tasks have done their part; 0 if they wait for ever. */
static int all_done(int count)
{
	while (count > 0) {
		struct timeval patience = {100, 0};
		int message = pvm_trecv(-1, DONE, &patience);
		if (message <= 0) {
			printf("%d members wait for ever\n", count);
			return 0;
		}
		count--;
		while (pvm_nrecv(-1, FAILED) > 0) {
			char text[200];
			pvm_upkstr(text);
			printf("%s\n", text);
			failures++;
		}
	}
	return 1;
}

int main(int argc, char **argv)
{
	int rounds, seed, round, i;

	begin();
	pvm_setopt(PvmAutoErr, 0);
	parent = pvm_parent();
	if (parent > 0) {
		n = atoi(argv[1]);
		me = atoi(argv[2]);
		join();
		return child();
	}
	if (scanf("%d %d %d", &n, &rounds, &seed) != 3 || n > MOST)
		return 1;
	srand(seed);
	for (i = 0; i < n; i++) {
		start(argv[0], i);
		joined(i, i);
	}
	for (round = 1; round <= 2 * rounds; round++) {
		int quiet = round % 2, lost = rand() % n, way = rand() % WAYS;
		int root = rand() % 3 == 0 ? rand() % n : 0, moment = rand() % 6000;
		order(tids, n, quiet ? QUIET : DISTURBED, round, root, quiet ? NOBODY : lost, way, rand() % 4);
		if (!quiet && way == IS_KILLED) {
			usleep(moment);
			pvm_sendsig(tids[lost], SIGKILL);
		}
		int dies = !quiet && (way == EXITS || way == IS_KILLED), leaves = !quiet && way == LEAVES;
		if (dies) {
			pvm_recv(-1, GONE);
			/* It may have done its part before. */
			pvm_nrecv(tids[lost], DONE);
		}
		if (!all_done(n - dies))
			break;
		if (dies || leaves) {
			int expected = lowest_free();
			if (dies)
				start(argv[0], lost);
			else
				order(&tids[lost], 1, BACK, round, 0, 0, 0, 0);
			joined(lost, expected);
		}
	}
	printf("%d failures\n", failures);
	order(tids, n, STOP, 0, 0, 0, 0, 0);
	pvm_exit();
	return 0;
}
