/*
 * A resource manager that is killed before it answers: the task that waits for it has the answer of the daemon, as for
 * all that it asks later.
 */
#include "show.h"
#include <signal.h>
#include <sys/wait.h>

static int told[2];

static void manager(void)
{
	struct pvmhostinfo *host;

	SHOW(pvm_reg_rm(&host));
	if (write(told[1], "r", 1) == 1)
		for (;;)
			pause();
}

static void client(void)
{
	struct pvmhostinfo *hosts;
	int nhost = 0, narch = 0, status = 0;
	char *name = "localhost";

	ID(pvm_mytid());
	if (write(told[1], "c", 1) != 1)
		return;
	/* Nobody answers this before the manager is dead. */
	SHOW(pvm_config(&nhost, &narch, &hosts));
	printf("hosts %d\n", nhost);
	SHOW(pvm_config(&nhost, &narch, &hosts));
	SHOW(pvm_addhosts(&name, 1, &status));
	printf("a host twice: %d\n", status < 0);
	SHOW(pvm_exit());
}

static pid_t start(void (*role)(void))
{
	char word;
	pid_t pid = fork();

	if (pid == 0) {
		role();
		_exit(0);
	}
	if (read(told[0], &word, 1) != 1)
		printf("no word\n");
	return pid;
}

int main(void)
{
	pid_t first, second;

	begin();
	if (pipe(told) != 0)
		return 1;
	first = start(manager);
	second = start(client);
	usleep(300000);
	printf("waits %d\n", waitpid(second, NULL, WNOHANG) == 0);
	kill(first, SIGKILL);
	waitpid(second, NULL, 0);
	return 0;
}
