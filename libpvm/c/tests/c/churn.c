/* Members that meet, leave, come back and are killed, all at random: none may fail, and none may wait for ever. */
#include "show.h"
#include <time.h>

#define MOST 64
enum { BEGIN = 1, DONE = 2, GONE = 3, ROUNDS = 60 };

static int child(int parent)
{
	int i, seed, failed = 0;

	pvm_recv(parent, BEGIN);
	pvm_upkint(&seed, 1, 1);
	srand(seed);
	pvm_joingroup("churn");
	for (i = 0; i < ROUNDS; i++) {
		int dice = rand() % 20;
		if (dice == 0) {
			pvm_lvgroup("churn");
			usleep(rand() % 3000);
			failed += pvm_joingroup("churn") < 0;
		} else if (dice == 1) {
			usleep(rand() % 3000);
		} else {
			failed += pvm_barrier("churn", -1) != 0;
		}
	}
	pvm_lvgroup("churn");
	tell(parent, DONE, failed);
	pvm_exit();
	return 0;
}

int main(int argc, char **argv)
{
	int parent = pvm_parent(), tids[MOST], n, kills, i, gone = 0, failures = 0;

	begin();
	if (parent > 0)
		return child(parent);
	if (scanf("%d %d", &n, &kills) != 2 || n > MOST)
		return 1;
	if (pvm_spawn(argv[0], NULL, PvmTaskDefault, NULL, n, tids) != n) {
		printf("no children\n");
		return 1;
	}
	pvm_notify(PvmTaskExit, GONE, n, tids);
	for (i = 0; i < n; i++) {
		int seed = n * 1000 + i;
		tell(tids[i], BEGIN, seed);
	}
	for (i = 0; i < kills; i++) {
		usleep(50000);
		pvm_kill(tids[i * 3 % n]);
	}
	while (gone < n) {
		struct timeval patience = {100, 0};
		int tag, failed;
		int message = pvm_trecv(-1, -1, &patience);
		if (message <= 0) {
			printf("%d members wait for ever\n", n - gone);
			break;
		}
		pvm_bufinfo(message, NULL, &tag, NULL);
		if (tag == GONE) {
			gone++;
		} else {
			pvm_upkint(&failed, 1, 1);
			failures += failed;
		}
	}
	printf("%d failures\n", failures);
	pvm_exit();
	return 0;
}
