/*
 * pi.c - master and workers: each worker integrates its share of 4 / (1 + x^2) from 0 to 1.
 *
 * Build:  cc -o pi pi.c $(pkg-config --cflags --libs pvm3)
 * Run:    pvm run --hosts 4 ./pi 16 100000000
 *         or, while a daemon runs:  ./pi [workers] [slices]
 */

#include <stdio.h>
#include <stdlib.h>
#include <pvm3.h>

enum { WORK = 1, SUM = 2 };

/* The worker: add up every count-th slice, beginning with the one that has its number. */
static int integrate(int parent)
{
	int first, count, slices;

	pvm_recv(parent, WORK);
	pvm_unpackf("%d %d %d", &first, &count, &slices);

	double sum = 0.0, width = 1.0 / slices;
	for (long i = first; i < slices; i += count) {
		double x = (i + 0.5) * width;
		sum += 4.0 / (1.0 + x * x);
	}
	sum *= width;

	pvm_initsend(PvmDataDefault);
	pvm_pkdouble(&sum, 1, 1);
	pvm_send(parent, SUM);
	return 0;
}

/* The master: start all workers with one call, send each its share, add the sums in the order they come. */
static int distribute(const char *name, int workers, int slices)
{
	int *tids = malloc(workers * sizeof *tids);
	char *program = realpath(name, NULL);
	if (!tids)
		return 1;

	int started = pvm_spawn(program ? program : (char *)name, NULL, PvmTaskDefault, NULL, workers, tids);
	if (started < 1) {
		fprintf(stderr, "cannot start %s: error %d\n", name, started < 0 ? started : tids[0]);
		return 1;
	}

	for (int i = 0; i < started; i++) {
		pvm_initsend(PvmDataDefault);
		pvm_packf("%d %d %d", i, started, slices);
		pvm_send(tids[i], WORK);
	}

	double pi = 0.0, sum;
	for (int i = 0; i < started; i++) {
		pvm_recv(-1, SUM);
		pvm_upkdouble(&sum, 1, 1);
		pi += sum;
	}
	printf("%d workers say pi is %.12f\n", started, pi);

	free(program);
	free(tids);
	return 0;
}

int main(int argc, char **argv)
{
	if (pvm_mytid() < 0)
		return 1;

	int parent = pvm_parent();
	int status;
	if (parent == PvmNoParent) {
		int workers = argc > 1 ? atoi(argv[1]) : 4;
		int slices = argc > 2 ? atoi(argv[2]) : 10000000;
		if (workers < 1 || slices < 1) {
			fprintf(stderr, "usage: pi [workers] [slices]\n");
			status = 2;
		} else {
			status = distribute(argv[0], workers, slices);
		}
	} else {
		status = integrate(parent);
	}

	pvm_exit();
	return status;
}
