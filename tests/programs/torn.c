/*
 * torn LENGTH: spawns a task that sends a message, and ends while it writes LENGTH bytes of another to its daemon. Then a
 * second one, which ends well. Prints what of it arrives.
 */
#include <arpa/inet.h>
#include <pvm3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WHOLE = 1, GONE = 2, FIRST_FRAGMENT = 1, HEADER = 16 };

static void send_whole(void)
{
	pvm_initsend(PvmDataDefault);
	pvm_send(pvm_parent(), WHOLE);
}

/* The header of a fragment that is longer than what follows it. */
static void tear(int length)
{
	uint32_t header[HEADER / 4] = { 0 };
	char *bytes = calloc(1, HEADER + length);
	int count, *fds, done = 0;

	count = pvm_getfds(&fds);
	if (count < 1 || !bytes)
		_exit(3);
	header[0] = htonl(pvm_parent());
	header[1] = htonl(pvm_mytid());
	header[2] = htonl(length + 1000);
	memcpy(bytes, header, HEADER);
	bytes[12] = FIRST_FRAGMENT;
	while (done < HEADER + length) {
		int n = write(fds[0], bytes + done, HEADER + length - done);

		if (n < 0)
			_exit(4);
		done += n;
	}
	_exit(0);
}

static void hear(void)
{
	int tag;

	pvm_bufinfo(pvm_recv(-1, -1), NULL, &tag, NULL);
	printf("%s\n", tag == WHOLE ? "whole" : tag == GONE ? "gone" : "torn");
}

int main(int argc, char **argv)
{
	char *well[] = { "-1", NULL };
	int length, child;

	if (argc < 2)
		return 2;
	length = atoi(argv[1]);
	if (pvm_parent() > 0) {
		send_whole();
		if (length >= 0)
			tear(length);
		pvm_exit();
		return 0;
	}
	for (int i = 0; i < 2; i++) {
		if (pvm_spawn(argv[0], i == 0 ? argv + 1 : well, PvmTaskDefault, "", 1, &child) != 1)
			return 5;
		pvm_notify(PvmTaskExit, GONE, 1, &child);
		hear();
		hear();
	}
	printf("%d more\n", pvm_probe(-1, -1));
	pvm_exit();
	return 0;
}
