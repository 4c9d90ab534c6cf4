/*
 * steady HOST SECONDS FILE: exchanges messages with a copy of itself on HOST for that long, and writes into the file how many round trips
 * there were, the longest of them in milliseconds, and the notices of lost hosts that came meanwhile.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BALL = 1, LOST = 2, MAX = 64 };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static int answer(void)
{
	int number;

	for (;;) {
		pvm_recv(pvm_parent(), BALL);
		pvm_upkint(&number, 1, 1);
		if (number < 0)
			break;
		pvm_initsend(PvmDataDefault);
		pvm_pkint(&number, 1, 1);
		pvm_send(pvm_parent(), BALL);
	}
	pvm_exit();
	return 0;
}

int main(int argc, char **argv)
{
	struct pvmhostinfo *hosts;
	int dtids[MAX], count, other, number, lost = 0, i;
	double begin, last, longest = 0;
	FILE *file;

	if (argc == 1)
		return answer();
	if (argc != 4 || pvm_config(&count, NULL, &hosts) < 0 || count > MAX)
		return 2;
	for (i = 0; i < count; i++)
		dtids[i] = hosts[i].hi_tid;
	pvm_notify(PvmHostDelete, LOST, count, dtids);
	if (pvm_spawn(argv[0], NULL, PvmTaskHost, argv[1], 1, &other) != 1)
		return 1;
	begin = last = now();
	for (number = 0; last < begin + atof(argv[2]); number++) {
		int back = -1;
		double time;

		pvm_initsend(PvmDataDefault);
		pvm_pkint(&number, 1, 1);
		if (pvm_send(other, BALL) < 0 || pvm_recv(other, BALL) < 0)
			return 1;
		pvm_upkint(&back, 1, 1);
		if (back != number)
			return 1;
		time = now();
		if (time - last > longest)
			longest = time - last;
		last = time;
		while (pvm_nrecv(-1, LOST) > 0)
			lost++;
	}
	number = -1;
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&number, 1, 1);
	pvm_send(other, BALL);
	file = fopen(argv[3], "w");
	fprintf(file, "longest %.0f ms, lost %d\n", longest * 1e3, lost);
	fclose(file);
	pvm_exit();
	return 0;
}
