#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <pvm3.h>

enum { WORKERS = 4, SIDE = 8, POINTS = SIDE * SIDE };
enum { WORK = 1, RESULT = 2 };

/* Time in seconds until an oscillation is below 1 %, by small steps. */
static double settling_time(double stiffness, double damping, double step)
{
	double position = 1, speed = 0, last = 0;
	long steps = (long)(20 / step + 0.5);

	for (long n = 0; n < steps; n++) {
		speed += step * (-stiffness * position - damping * speed);
		position += step * speed;
		if (fabs(position) > 0.01)
			last = n * step;
	}
	return last;
}

/* A worker: answers each point with its result, until the point is negative. */
static void work(int parent)
{
	int point;
	double step;

	for (;;) {
		pvm_recv(parent, WORK);
		pvm_unpackf("%d %lf", &point, &step);
		if (point < 0)
			return;
		double stiffness = 0.5 * (1 + point / SIDE), damping = 0.25 * (1 + point % SIDE);
		double time = settling_time(stiffness, damping, step);
		pvm_initsend(PvmDataDefault);
		pvm_packf("%d %lf", point, time);
		pvm_send(parent, RESULT);
	}
}

static void give(int worker, int point, double step)
{
	pvm_initsend(PvmDataDefault);
	pvm_packf("%d %lf", point, step);
	pvm_send(worker, WORK);
}

/* The parent: each worker has one point at a time, and gets the next one for its result. */
static int sweep(char *program, double step)
{
	int tids[WORKERS], next = 0, best = 0, started;
	double times[POINTS];

	started = pvm_spawn(program, NULL, PvmTaskDefault, "", WORKERS, tids);
	if (started < 1) {
		fprintf(stderr, "cannot start %s: error %d\n", program, started < 0 ? started : tids[0]);
		return 1;
	}
	for (int i = 0; i < started; i++)
		give(tids[i], next++, step);
	for (int done = 0; done < POINTS; done++) {
		int worker, point;

		pvm_bufinfo(pvm_recv(-1, RESULT), NULL, NULL, &worker);
		pvm_upkint(&point, 1, 1);
		pvm_upkdouble(&times[point], 1, 1);
		give(worker, next < POINTS ? next++ : -1, step);
	}
	for (int point = 1; point < POINTS; point++)
		if (times[point] < times[best])
			best = point;
	printf("%d points; stiffness %.1f with damping %.2f settles after %.2f s\n", POINTS, 0.5 * (1 + best / SIDE),
	       0.25 * (1 + best % SIDE), times[best]);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 0, parent;

	if (pvm_mytid() < 0)
		return 1;
	parent = pvm_parent();
	if (parent == PvmNoParent)
		status = sweep(realpath(argv[0], NULL), argc > 1 ? atof(argv[1]) : 1e-3);
	else
		work(parent);
	pvm_exit();
	return status;
}
