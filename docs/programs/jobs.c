#include <stdio.h>
#include <stdlib.h>
#include <pvm3.h>
#include <pvm3x.h>

int main(int argc, char **argv)
{
	struct pvmjobspec job;
	struct pvmjobinfo *info;
	char reason[256];
	long long id;

	if (argc < 3) {
		fprintf(stderr, "usage: jobs COUNT PROGRAM [ARGUMENTS]\n");
		return 2;
	}
	if (pvm_mytid() < 0)
		return 1;
	pvm_setopt(PvmAutoErr, 0); /* prints no errors by itself */
	pvm_initjob(&job, sizeof job);
	job.js_program = argv[2];
	job.js_argv = argv + 3;
	job.js_first = 1;
	job.js_count = atoi(argv[1]);
	job.js_output = "result.%t";
	id = pvm_submitjob(&job);
	if (id < 0 || pvm_waitjobs(&id, 1, &info) < 0) {
		pvm_jobreason(reason, sizeof reason);
		fprintf(stderr, "jobs: %s\n", reason);
		return 1;
	}
	printf("job %lld is %s: %d tasks done, %d failed\n", id, info->ji_statename, info->ji_done, info->ji_failed);
	pvm_exit();
	return info->ji_state != PvmJobDone;
}
