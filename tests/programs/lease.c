/*
 * lease FILE: keeps others from opening FILE, and so from running it, until standard input ends. Says when it has it, and
 * when somebody wants it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	sigset_t wanted;
	int file, number;

	sigemptyset(&wanted);
	sigaddset(&wanted, SIGIO);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	if (file < 0 || fcntl(file, F_SETLEASE, F_WRLCK) < 0) {
		perror("lease");
		return 1;
	}
	puts("held");
	fflush(stdout);
	sigwait(&wanted, &number);
	puts("wanted");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return fcntl(file, F_SETLEASE, F_UNLCK) < 0;
}
