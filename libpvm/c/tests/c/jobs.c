/* Jobs in C, and in C++: an array, a job that is refused, one that is held, one that waits for another, and the queues.
 * Its argument is the folder that jobs work in. */

/* For usleep(). */
#define _DEFAULT_SOURCE
#include <pvm3.h>
#include <pvm3x.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char shell[] = "-c";

/* A request that runs a command of the shell. */
static void prepare(struct pvmjobspec *job, char **words, char *command)
{
	words[0] = shell;
	words[1] = command;
	words[2] = NULL;
	if (pvm_initjob(job, sizeof *job) != 0)
		printf("no defaults\n");
	job->js_program = "/bin/sh";
	job->js_argv = words;
}

static void say_why(const char *what, long long code)
{
	char reason[400];
	int length = pvm_jobreason(reason, sizeof reason);

	printf("%s: %lld, %s\n", what, code, length == (int)strlen(reason) ? reason : "and a reason that was cut off");
}

/* How many texts an array has, and whether it has one. */
static int count(char **texts, const char *wanted)
{
	int found = 0, number = 0;

	for (; *texts; texts++, number++)
		found += strcmp(*texts, wanted) == 0;
	return found ? number : -1;
}

static void print_job(const struct pvmjobinfo *job)
{
	int status = job->ji_status;

	printf("%s of %s in %s is %s (%d) [%s]: tasks %d from %d, at once %d, width %d, slots %d\n", job->ji_name, job->ji_user,
		job->ji_queue, job->ji_statename, job->ji_state, job->ji_reason, job->ji_count, job->ji_first, job->ji_atonce,
		job->ji_width, job->ji_slots);
	printf("\twaiting %d, running %d, done %d, failed %d, cancelled %d, restarts %d, status %d\n", job->ji_waiting,
		job->ji_running, job->ji_done, job->ji_failed, job->ji_cancelled, job->ji_restarts, status);
	printf("\twords %d, hosts %d, whole %d\n", count(job->ji_argv, "/bin/sh"), count(job->ji_hosts, "localhost"),
		job->ji_size >= sizeof *job);
}

static void array(const char *folder, long long *id)
{
	char command[] = "echo task $PVM_JOB_TASK of $PVM_JOB_TASKS, $GREETING", greeting[] = "GREETING=hello",
		host[] = "local*", *words[3], *env[] = { greeting, NULL }, *hosts[] = { host, NULL };
	struct pvmjobspec job;
	struct pvmjobinfo *found = NULL;
	int number;

	prepare(&job, words, command);
	job.js_name = "sweep";
	job.js_user = "ann";
	job.js_queue = "default";
	job.js_env = env;
	job.js_hosts = hosts;
	job.js_dir = folder;
	job.js_output = "%n.%t";
	job.js_first = 5;
	job.js_count = 3;
	job.js_atonce = 2;
	job.js_slots = 2;
	job.js_time = 60000;
	job.js_memory = 1LL << 33;
	job.js_restarts = 1;
	*id = pvm_submitjob(&job);
	number = pvm_waitjobs(id, 1, &found);
	printf("%d array: %d\n", number, found && !found->ji_next && found->ji_id == *id);
	if (found) {
		print_job(found);
		printf("\tin its folder %d, times %d, memory %d\n", strcmp(found->ji_dir, folder) == 0,
			found->ji_submitted > 0 && found->ji_submitted <= found->ji_started && found->ji_started <= found->ji_ended,
			found->ji_memory > 0 && found->ji_cpu >= 0);
	}
}

static void refused(void)
{
	char command[] = "true", cut[8] = "zzzzzzz", *words[3];
	struct pvmjobspec job;
	long long missing = 4000;

	prepare(&job, words, command);
	job.js_queue = "night";
	say_why("no such queue", pvm_submitjob(&job));
	printf("cut: %d", pvm_jobreason(cut, 6) > 6);
	printf(", %s, %c\n", cut, cut[6]);
	job.js_queue = NULL;
	job.js_after = &missing;
	job.js_nafter = 1;
	say_why("no such job", pvm_submitjob(&job));
	job.js_nafter = 0;
	job.js_slots = 1000;
	say_why("no such host", pvm_submitjob(&job));
	say_why("no job to wait for", pvm_waitjobs(&missing, 1, NULL));
	say_why("no job to look at", pvm_jobs(&missing, 1, NULL));
	say_why("nothing", pvm_jobs(NULL, 0, NULL));
}

static void held(void)
{
	char command[] = "exit 3", *words[3];
	struct pvmjobspec job;
	struct pvmjobinfo *found;
	long long ids[3];
	int results[3] = { 77, 77, 77 };

	prepare(&job, words, command);
	job.js_held = 1;
	job.js_width = 2;
	job.js_user = "ann";
	ids[0] = pvm_submitjob(&job);
	job.js_held = 0;
	job.js_width = 0;
	job.js_after = ids;
	job.js_nafter = 1;
	ids[1] = pvm_submitjob(&job);
	ids[2] = 4000;
	printf("listed: %d\n", pvm_jobs(NULL, 0, &found));
	for (; found; found = found->ji_next)
		print_job(found);
	printf("held: %d", pvm_holdjobs(ids, 3, results));
	say_why("", results[0] * 100 + results[1] * 10 + (results[2] == PvmDenied));
	printf("released: %d", pvm_releasejobs(ids, 2, results));
	printf(": %d %d\n", results[0], results[1]);
	printf("waited: %d\n", pvm_waitjobs(ids, 2, &found));
	/* When one task of a parallel program fails the others are ended, if they have not failed already. */
	printf("%s, %d\n", found->ji_statename, found->ji_failed + found->ji_cancelled);
	print_job(found->ji_next);
	printf("released: %d", pvm_releasejobs(ids, 1, NULL));
	say_why("", 0);
}

static void failed(void)
{
	char command[] = "exit 3", *words[3];
	struct pvmjobspec job;
	struct pvmjobinfo *found;
	long long id;

	prepare(&job, words, command);
	job.js_restarts = 2;
	id = pvm_submitjob(&job);
	printf("failed: %d\n", pvm_waitjobs(&id, 1, &found));
	print_job(found);
}

static void cancelled(void)
{
	char command[] = "sleep 60", *words[3];
	struct pvmjobspec job;
	struct pvmjobinfo *found, *latest;
	long long id;
	int result = 77;

	prepare(&job, words, command);
	id = pvm_submitjob(&job);
	while (pvm_jobs(&id, 1, &found) == 1 && found->ji_started == 0)
		usleep(1000);
	printf("%s: %d\n", found->ji_statename, found->ji_running);
	printf("cancelled: %d", pvm_canceljobs(&id, 1, &result));
	printf(", %d\n", result);
	printf("waited: %d", pvm_waitjobs(&id, 1, &found));
	printf(", %s: %s\n", found->ji_statename, found->ji_reason);
	printf("again: %d", pvm_canceljobs(&id, 1, &result));
	say_why("", result);
	printf("history: %d", pvm_jobhistory(2, &latest));
	/* The list of another function stands. */
	printf(", %d, %d\n", latest->ji_id == id && found->ji_id == id, latest->ji_next && !latest->ji_next->ji_next);
	printf("all: %d\n", pvm_jobhistory(INT_MAX, NULL));
}

static void queues(void)
{
	struct pvmqueueinfo *queue;

	printf("queues: %d\n", pvm_queues(&queue));
	for (; queue; queue = queue->qi_next)
		printf("%s, priority %d, waiting %d, running %d, hosts %d, limits %d, whole %d\n", queue->qi_name, queue->qi_priority,
			queue->qi_waiting, queue->qi_running, count(queue->qi_hosts, "local*"), count(queue->qi_limits, "max-time=3600s"),
			queue->qi_size >= sizeof *queue);
}

int main(int argc, char **argv)
{
	long long id;

	(void)argc;
	setvbuf(stdout, NULL, _IONBF, 0);
	pvm_setopt(PvmAutoErr, 0);
	array(argv[1], &id);
	refused();
	held();
	failed();
	cancelled();
	queues();
	pvm_exit();
	return 0;
}
