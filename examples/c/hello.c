/*
 * hello.c - a program that starts a copy of itself elsewhere and gets a greeting back.
 *
 * Build:  cc -o hello hello.c $(pkg-config --cflags --libs pvm3)
 * Run:    pvm run ./hello
 *         or, while a daemon runs (start one with `pvm`):  ./hello
 *
 * Master and worker are one program: the one that has no parent is the master.
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <pvm3.h>

enum { GREETING = 1 };

/* The worker: say where it runs. */
static int greet(int parent)
{
	char host[64] = "", text[128];

	gethostname(host, sizeof host - 1);
	snprintf(text, sizeof text, "hello from %s", host);

	pvm_initsend(PvmDataDefault);
	pvm_pkstr(text);
	pvm_send(parent, GREETING);
	return 0;
}

/* The master: start a worker, wait for what it says. */
static int ask(const char *name)
{
	char *program, text[128];
	int tid, sender, bytes;

	/* The daemons start programs by their full path; a bare name is looked up in their own search path. */
	program = realpath(name, NULL);
	if (pvm_spawn(program ? program : (char *)name, NULL, PvmTaskDefault, NULL, 1, &tid) != 1) {
		fprintf(stderr, "cannot start %s: error %d\n", name, tid);
		return 1;
	}
	free(program);

	int message = pvm_recv(tid, GREETING);
	pvm_bufinfo(message, &bytes, NULL, &sender);
	if (bytes > (int)sizeof text) {
		fprintf(stderr, "the greeting is too long\n");
		return 1;
	}
	pvm_upkstr(text);
	printf("task t%x says: %s\n", sender, text);
	return 0;
}

int main(int argc, char **argv)
{
	if (pvm_mytid() < 0)
		return 1; /* libpvm has said why */

	(void)argc;
	int parent = pvm_parent();
	int status = parent == PvmNoParent ? ask(argv[0]) : greet(parent);

	pvm_exit();
	return status;
}
