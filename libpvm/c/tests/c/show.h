/*
 * What the test programs have in common: each prints what calls give, for comparison with what is expected of any
 * libpvm3. Nothing printed depends on process or task ids.
 */
#include <stdio.h>
#include <pvm3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* A call, what it returns, and the error it leaves behind. */
#define SHOW(call_) \
	do { \
		int result_; \
		pvm_errno = 0; \
		result_ = (call_); \
		printf("%s = %d", #call_, result_); \
		if (pvm_errno) \
			printf(", errno %d", pvm_errno); \
		printf("\n"); \
	} while (0)

/* A call and what it returns. The original leaves errors of calls inside it behind. */
#define RESULT(call_) printf("%s = %d\n", #call_, (call_))

/* A call that returns an id: only whether it did. */
#define ID(call_) \
	do { \
		int result_ = (call_); \
		if (result_ > 0) \
			printf("%s > 0\n", #call_); \
		else \
			printf("%s = %d\n", #call_, result_); \
	} while (0)

/* Standard output and standard error go to one pipe, in the order of writing. */
static inline void begin(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
}

/* From now on nothing comes on standard error. */
static inline void be_silent(void)
{
	if (!freopen("/dev/null", "w", stderr))
		printf("no silence\n");
}

static inline double now(void)
{
	struct timeval time;

	gettimeofday(&time, NULL);
	return time.tv_sec + time.tv_usec * 1e-6;
}

/* The next number of the message received last; -1 if there is none. */
static inline int number(void)
{
	int n = -1;

	pvm_upkint(&n, 1, 1);
	return n;
}

/* Sends a number. */
static inline void tell(int tid, int tag, int n)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	pvm_send(tid, tag);
}

/* Sends a text. */
static inline void tell_text(int tid, int tag, char *text)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkstr(text);
	pvm_send(tid, tag);
}
