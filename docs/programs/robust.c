#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <pvm3.h>

enum { WORKERS = 4, SIDE = 8, POINTS = SIDE * SIDE };
enum { WORK = 1, RESULT = 2, LOST = 3 };

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

/* ANCHOR: state */
/* What the parent knows: which worker has which point, and the results. */
struct sweep {
	char *program;
	double step;
	int tids[WORKERS]; /* 0: there is no such worker */
	int has[WORKERS];  /* the point that it computes, or -1 */
	int is_given[POINTS], is_done[POINTS];
	double times[POINTS];
};
/* ANCHOR_END: state */

/* ANCHOR: give */
/* Gives a worker a point that no other worker has, or tells it to exit. */
static void give(struct sweep *sweep, int worker)
{
	int point = 0;

	while (point < POINTS && sweep->is_given[point])
		point++;
	sweep->has[worker] = point < POINTS ? point : -1;
	if (point < POINTS)
		sweep->is_given[point] = 1;
	pvm_initsend(PvmDataDefault);
	pvm_packf("%d %lf", sweep->has[worker], sweep->step);
	pvm_send(sweep->tids[worker], WORK);
}

/* Starts workers, asks for a notice of the exit of each, and gives each a point. Returns how many were started. */
static int start(struct sweep *sweep, int first, int count)
{
	int *tids = &sweep->tids[first];
	int started = pvm_spawn(sweep->program, NULL, PvmTaskDefault, "", count, tids);

	if (started < 0)
		started = 0;
	for (int i = 0; i < started; i++)
		give(sweep, first + i);
	for (int i = started; i < count; i++)
		tids[i] = 0;
	if (started > 0)
		pvm_notify(PvmTaskExit, LOST, started, tids);
	return started;
}
/* ANCHOR_END: give */

static int worker_with(struct sweep *sweep, int tid)
{
	for (int worker = 0; worker < WORKERS; worker++)
		if (sweep->tids[worker] == tid)
			return worker;
	return -1;
}

/* ANCHOR: lost */
/* A worker has exited. If it had a point, another worker is started and computes it. Returns how many were started. */
static int replace(struct sweep *sweep, int worker)
{
	int point = sweep->has[worker];

	sweep->tids[worker] = 0;
	if (point < 0)
		return 0; /* it exited because there was no more work */
	printf("a worker is lost; point %d is computed again\n", point);
	sweep->is_given[point] = 0;
	return start(sweep, worker, 1);
}
/* ANCHOR_END: lost */

/* ANCHOR: loop */
/* Takes results and notices until every point has a result. Returns 0 if no worker is left before that. */
static int supervise(struct sweep *sweep)
{
	int done = 0, alive = start(sweep, 0, WORKERS);

	while (done < POINTS && alive > 0) {
		int tag, from, worker, point;

		pvm_bufinfo(pvm_recv(-1, -1), NULL, &tag, &from);
		pvm_upkint(&point, 1, 1); /* a notice has the id of the task instead */
		worker = worker_with(sweep, tag == LOST ? point : from);
		if (worker < 0)
			continue;
		if (tag == RESULT) {
			pvm_upkdouble(&sweep->times[point], 1, 1);
			done += !sweep->is_done[point];
			sweep->is_done[point] = 1;
			give(sweep, worker);
		} else {
			alive += replace(sweep, worker) - 1;
		}
	}
	return done == POINTS;
}
/* ANCHOR_END: loop */

static int run(char *program, double step)
{
	static struct sweep sweep;
	int best = 0;

	sweep.program = program;
	sweep.step = step;
	if (!supervise(&sweep)) {
		fprintf(stderr, "no worker is left\n");
		return 1;
	}
	for (int point = 1; point < POINTS; point++)
		if (sweep.times[point] < sweep.times[best])
			best = point;
	printf("%d points; stiffness %.1f with damping %.2f settles after %.2f s\n", POINTS, 0.5 * (1 + best / SIDE),
	       0.25 * (1 + best % SIDE), sweep.times[best]);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 0, parent;

	if (pvm_mytid() < 0)
		return 1;
	parent = pvm_parent();
	if (parent == PvmNoParent)
		status = run(realpath(argv[0], NULL), argc > 1 ? atof(argv[1]) : 1e-3);
	else
		work(parent);
	pvm_exit();
	return status;
}
