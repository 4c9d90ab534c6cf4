/* What no call of pvm3x.h should be given. */
#include "show.h"
#include <limits.h>
#include <stddef.h>
#include <pvm3x.h>

#define NONE NULL

/* A structure of a later library, with a member that this one does not know. */
struct later {
	struct pvmjobspec job;
	long long more;
};

static char true_[] = "true", empty[] = "", no_name[] = "=x", no_value[] = "x", latin[] = "\xe9";

static void prepare(struct pvmjobspec *job)
{
	pvm_initjob(job, sizeof *job);
	job->js_program = true_;
	job->js_held = 1;
}

/* The size that the structure had at first. */
#define FIRST_VERSION offsetof(struct pvmjobspec, js_bandwidth)

/* Submits a request in which one member is wrong, and says what the library says of it. */
#define WRONG(...) \
	do { \
		struct pvmjobspec job; \
		char reason_[200]; \
		long long code_; \
		prepare(&job); \
		job.__VA_ARGS__; \
		code_ = pvm_submitjob(&job); \
		pvm_jobreason(reason_, sizeof reason_); \
		printf("%s: %lld: %s\n", #__VA_ARGS__, code_, reason_); \
	} while (0)

static void members(void)
{
	char *unnamed[] = { no_name, NONE }, *unset[] = { no_value, NONE }, *hosts[] = { latin, NONE }, *vacant[] = { empty, NONE };
	long long after[] = { -1 };

	WRONG(js_program = NONE);
	WRONG(js_program = empty);
	WRONG(js_name = latin);
	WRONG(js_user = latin);
	WRONG(js_queue = latin);
	WRONG(js_env = unnamed);
	WRONG(js_env = unset);
	WRONG(js_hosts = hosts);
	WRONG(js_hosts = vacant);
	WRONG(js_first = -1);
	WRONG(js_count = 0);
	WRONG(js_count = -1);
	WRONG(js_count = INT_MAX);
	WRONG(js_atonce = -1);
	WRONG(js_width = -1);
	WRONG(js_width = INT_MAX);
	WRONG(js_width = 2, job.js_count = 2);
	WRONG(js_width = 2, job.js_first = 1);
	WRONG(js_width = 2, job.js_atonce = 1);
	WRONG(js_slots = 0);
	WRONG(js_slots = INT_MIN);
	WRONG(js_restarts = -1);
	WRONG(js_time = -1);
	WRONG(js_memory = LLONG_MIN);
	WRONG(js_bandwidth = -1);
	WRONG(js_expect = LLONG_MIN);
	WRONG(js_communication = -1);
	WRONG(js_nafter = 1);
	WRONG(js_nafter = -1);
	WRONG(js_nafter = INT_MAX);
	WRONG(js_nafter = 1, job.js_after = after);
	WRONG(js_size = 0);
	WRONG(js_size = FIRST_VERSION - 1);
	WRONG(js_size = (size_t)-1);
}

static void sizes(void)
{
	struct later later;
	struct pvmjobspec job;

	SHOW(pvm_initjob(NONE, sizeof job));
	SHOW(pvm_initjob(&job, 0));
	SHOW(pvm_initjob(&job, FIRST_VERSION - 1));
	SHOW(pvm_initjob(&job, FIRST_VERSION));
	SHOW(pvm_initjob(&job, (size_t)-1));
	memset(&later, 0xff, sizeof later);
	SHOW(pvm_initjob(&later.job, sizeof later));
	SHOW(later.more == 0 && later.job.js_size == sizeof later);
	later.job.js_program = true_;
	later.job.js_held = 1;
	SHOW(pvm_submitjob(&later.job) > 0);
	later.more = 1;
	SHOW((int)pvm_submitjob(&later.job));
	SHOW((int)pvm_submitjob(NONE));
}

static void lists(void)
{
	long long none[] = { 0, -1 }, one = 1;
	struct pvmjobinfo *job = (struct pvmjobinfo *)none;

	SHOW(pvm_jobs(NONE, 1, &job));
	SHOW(job == NONE);
	SHOW(pvm_jobs(none, -1, &job));
	SHOW(pvm_jobs(none, INT_MAX, &job));
	SHOW(pvm_jobs(none, 1, &job));
	SHOW(pvm_jobs(none + 1, 1, NONE));
	SHOW(pvm_jobhistory(-1, &job));
	SHOW(pvm_jobhistory(0, &job));
	SHOW(job == NONE);
	SHOW(pvm_jobhistory(0, NONE));
	SHOW(pvm_waitjobs(&one, 0, &job));
	SHOW(pvm_waitjobs(NONE, 0, &job));
	SHOW(pvm_waitjobs(NONE, 1, NONE));
	SHOW(pvm_waitjobs(&one, INT_MIN, &job));
	SHOW(pvm_queues(NONE));
}

static void changes(void)
{
	long long none[] = { 0, -1 };
	int result = 77;

	SHOW(pvm_canceljobs(NONE, 1, &result));
	SHOW(pvm_canceljobs(none, 0, &result));
	SHOW(pvm_canceljobs(none, 2, &result));
	SHOW(pvm_canceljobs(none, INT_MAX, &result));
	SHOW(pvm_holdjobs(NONE, 1, NONE));
	SHOW(pvm_holdjobs(none, -1, &result));
	SHOW(pvm_releasejobs(NONE, 1, NONE));
	SHOW(pvm_releasejobs(none, INT_MIN, &result));
	SHOW(result);
}

static void reasons(void)
{
	char text[4] = "abc";

	SHOW((int)pvm_submitjob(NONE));
	SHOW(pvm_jobreason(NONE, 4));
	SHOW(pvm_jobreason(text, -1));
	SHOW(pvm_jobreason(NONE, 0) > 0);
	SHOW(pvm_jobreason(text, 0) > 0);
	SHOW(strcmp(text, "abc"));
	SHOW(pvm_jobreason(text, 1) > 0);
	SHOW(text[0]);
	SHOW(text[1]);
}

static int nothing(void)
{
	return 0;
}

static void others(void)
{
	char longest[66];
	/* The second has a negative number. */
	struct pvmtraffic pairs[] = { { 0, 1, 5 }, { 0, -1, 5 } };

	memset(longest, 't', 65);
	longest[65] = 0;
	SHOW(pvm_cancelbatch(-1));
	SHOW(pvm_cancelbatch(INT_MAX));
	SHOW(pvm_setpolicy(latin));
	SHOW(pvm_setpolicy(NONE));
	SHOW(pvm_settraffic(-1, pairs));
	SHOW(pvm_settraffic(INT_MAX, pairs));
	SHOW(pvm_settraffic(1, NONE));
	SHOW(pvm_settraffic(2, pairs));
	SHOW(pvm_settraffic(1, pairs));
	SHOW(pvm_settraffic(0, NONE));
	SHOW(pvm_jointeam(NONE));
	SHOW(pvm_jointeam(empty));
	SHOW(pvm_jointeam(latin));
	SHOW(pvm_jointeam(longest));
	SHOW(pvm_maymove());
	SHOW(pvm_migratable(NONE, NONE));
	SHOW(pvm_migratable(nothing, NONE));
	SHOW(pvm_migratable(nothing, nothing));
	SHOW(pvm_migratable(nothing, nothing));
	SHOW(pvm_maymove());
	SHOW(pvm_move(-1, NONE));
	SHOW(pvm_move(pvm_mytid(), "no such host"));
	SHOW(pvm_move(pvm_mytid(), latin));
}

int main(void)
{
	begin();
	pvm_setopt(PvmAutoErr, 0);
	pvm_mytid();
	members();
	sizes();
	lists();
	changes();
	reasons();
	others();
	pvm_exit();
	return 0;
}
