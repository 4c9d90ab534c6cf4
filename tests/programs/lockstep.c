/* Members of a group on several hosts pass barriers while others are killed, leave, or lose their host, and the parent joins and leaves. No member passes a
 * barrier before all others have arrived there, and all that live pass all. The arguments: a file, which becomes the members' table; the
 * number of members; the number of barriers; a seed; a host to delete. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pvm3.h>

enum { MEMBERS_MAX = 64, END = 1, DONE = 2, GONE = 3 };

/* What all processes see: of each member the barrier to which it has come, and whether it is out. */
struct table {
	atomic_int arrived[MEMBERS_MAX], out[MEMBERS_MAX];
};

static struct table *table;

static void fail(const char *what, int number)
{
	printf("failed: %s: %d\n", what, number);
	fflush(stdout);
	exit(1);
}

static void open_table(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, sizeof *table) < 0)
		fail("the table", fd);
	table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (table == MAP_FAILED)
		fail("the table", 0);
}

static void member(int own, int members, int barriers, unsigned seed)
{
	int end = 0, number, other, code;

	seed = seed * 31 + (unsigned)own;
	if (own % 4 == 1 || own % 4 == 2)
		end = 1 + rand_r(&seed) % barriers;
	pvm_joingroup("lockstep");
	pvm_barrier("lockstep", members);
	for (number = 1; number <= barriers; number++) {
		if (number == end) {
			atomic_store(&table->out[own], 1);
			if (own % 4 == 1)
				raise(SIGKILL);
			if (rand_r(&seed) % 2)
				pvm_lvgroup("lockstep");
			pvm_exit();
			exit(0);
		}
		atomic_store(&table->arrived[own], number);
		if ((code = pvm_barrier("lockstep", -1)) < 0)
			fail("a barrier", code);
		for (other = 0; other < members; other++)
			if (atomic_load(&table->arrived[other]) < number && !atomic_load(&table->out[other]))
				fail("passed before a member has arrived", other);
		if (rand_r(&seed) % 50 == 0)
			usleep(rand_r(&seed) % 3000);
	}
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&own, 1, 1);
	pvm_send(pvm_parent(), DONE);
	pvm_recv(pvm_parent(), END);
	pvm_exit();
}

static void delete(char *host, const int *tids, int members)
{
	struct pvmhostinfo *hosts;
	int count, n, own, info;

	pvm_config(&count, NULL, &hosts);
	for (n = 0; n < count; n++)
		for (own = 0; own < members; own++)
			if (!strcmp(hosts[n].hi_name, host) && pvm_tidtohost(tids[own]) == hosts[n].hi_tid)
				atomic_store(&table->out[own], 1);
	if (pvm_delhosts(&host, 1, &info) != 1)
		fail("a host is not deleted", info);
	puts("deleted");
}

int main(int argc, char **argv)
{
	int tids[MEMBERS_MAX], members, barriers, n, own, done = 0, gone = 0;
	char number[16], *arguments[] = {argv[1], argv[2], argv[3], argv[4], number, NULL};

	members = atoi(argv[2]);
	barriers = atoi(argv[3]);
	open_table(argv[1]);
	if (pvm_parent() > 0) {
		member(atoi(argv[5]), members, barriers, (unsigned)atoi(argv[4]));
		return 0;
	}
	pvm_catchout(stdout);
	for (n = 0; n < members; n++) {
		sprintf(number, "%d", n);
		if (pvm_spawn(argv[0], arguments, PvmTaskDefault, "", 1, &tids[n]) != 1)
			fail("a member is not spawned", tids[n]);
	}
	pvm_notify(PvmTaskExit, GONE, members, tids);
	for (n = 0; done + gone < members; n++) {
		struct timeval pause = {0, 20000};

		/* Until all have met, a visit could take the place of a member. */
		if (n > 20 && atomic_load(&table->arrived[0]) > 0) {
			pvm_joingroup("lockstep");
			pvm_lvgroup("lockstep");
		}
		if (n == 40)
			delete(argv[5], tids, members);
		while (pvm_trecv(-1, DONE, &pause) > 0) {
			pvm_upkint(&own, 1, 1);
			done++;
		}
		while (pvm_nrecv(-1, GONE) > 0)
			gone++;
	}
	pvm_initsend(PvmDataDefault);
	pvm_mcast(tids, members, END);
	while (gone < members) {
		pvm_recv(-1, GONE);
		gone++;
	}
	printf("%d passed all\n", done);
	pvm_exit();
	return 0;
}
