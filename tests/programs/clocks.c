/*
 * clocks: says for every other host by how much this host's clock is ahead of it, then has a task on each host, and all
 * of them write to each other, round after round.
 */
#include <pvm3.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

enum { BEGIN = 1, ROUND = 2, ROUNDS = 20, MAX = 8 };

static int tids[MAX], count;

static long micros(struct timeval time)
{
	return time.tv_sec * 1000000L + time.tv_usec;
}

static long now(void)
{
	struct timeval time;

	gettimeofday(&time, NULL);
	return micros(time);
}

static void talk(void)
{
	int others[MAX], n = 0, i, round;

	for (i = 0; i < count; i++)
		if (tids[i] != pvm_mytid())
			others[n++] = tids[i];
	for (round = 0; round < ROUNDS; round++) {
		pvm_initsend(PvmDataDefault);
		for (i = 0; i < n; i++)
			pvm_send(others[i], ROUND + round);
		for (i = 0; i < n; i++)
			pvm_recv(others[i], ROUND + round);
	}
}

static void partner(void)
{
	long time = now();

	pvm_initsend(PvmDataDefault);
	pvm_pkbyte((char *)&time, sizeof time, 1);
	pvm_send(pvm_parent(), BEGIN);
	pvm_recv(pvm_parent(), BEGIN);
	pvm_upkint(&count, 1, 1);
	pvm_upkint(tids, count, 1);
	talk();
}

/* By how much the clock here is ahead of that host's, as the host and a task there say; microseconds. */
static void compare(char *program, struct pvmhostinfo *host)
{
	char *arguments[] = { "--partner", NULL };
	struct timeval clock, ahead;
	long before = now(), after, time;

	if (pvm_hostsync(host->hi_tid, &clock, &ahead) < 0)
		return;
	after = now();
	if (pvm_spawn(program, arguments, PvmTaskHost, host->hi_name, 1, &tids[count]) != 1)
		return;
	pvm_recv(tids[count], BEGIN);
	pvm_upkbyte((char *)&time, sizeof time, 1);
	printf("%s %ld %ld %ld\n", host->hi_name, micros(ahead), after - before, (now() - time) / 1000000);
	fflush(stdout);
	count++;
}

int main(int argc, char **argv)
{
	struct pvmhostinfo *hosts;
	int nhost, narch, i;

	if (argc > 1 && strcmp(argv[1], "--partner") == 0) {
		partner();
		pvm_exit();
		return 0;
	}
	if (pvm_config(&nhost, &narch, &hosts) < 0 || nhost > MAX)
		return 1;
	tids[count++] = pvm_mytid();
	for (i = 1; i < nhost; i++)
		compare(argv[0], &hosts[i]);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&count, 1, 1);
	pvm_pkint(tids, count, 1);
	pvm_mcast(tids, count, BEGIN);
	talk();
	pvm_exit();
	return 0;
}
