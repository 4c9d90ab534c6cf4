/*
 * bystander SECONDS [SIZE]: how long a message to an echo and back takes, for SECONDS alone and for as many while
 * another task sends without end to one that never receives; between two hosts if there are two. With a SIZE the messages
 * have SIZE bytes, and are received.
 *
 * Prints the median and the 99th percentile of each in microseconds and of how many there were, whether the sender was still
 * there in the end, and how many of its messages were received meanwhile.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { PING = 1, DATA = 2, READY = 3, COUNT = 4, MOST = 1000000 };

static float took[MOST];

static double now(void)
{
	struct timeval tv;

	gettimeofday(&tv, NULL);
	return tv.tv_sec + tv.tv_usec / 1e6;
}

static int ascending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void bounce(int other)
{
	int number = 7;

	pvm_initsend(PvmDataDefault);
	pvm_pkint(&number, 1, 1);
	pvm_send(other, PING);
	pvm_recv(other, PING);
}

static void measure(const char *what, int echo, double seconds)
{
	double end = now() + seconds, begin, back;
	int count = 0;

	for (begin = now(); begin < end && count < MOST; begin = back) {
		bounce(echo);
		back = now();
		took[count++] = (float)((back - begin) * 1e6);
	}
	qsort(took, count, sizeof took[0], ascending);
	printf("%s %.1f %.1f of %d\n", what, took[count / 2], took[(int)(count * 0.99)], count);
}

/* Answers with how many messages it has received, when it is asked. */
static void count(void)
{
	int received = 0, buffer, tag, sender;

	for (;;) {
		buffer = pvm_recv(-1, -1);
		pvm_bufinfo(buffer, NULL, &tag, &sender);
		if (tag == COUNT) {
			pvm_initsend(PvmDataDefault);
			pvm_pkint(&received, 1, 1);
			pvm_send(sender, COUNT);
		} else {
			received++;
		}
	}
}

static int received(int listener)
{
	int count;

	pvm_initsend(PvmDataDefault);
	pvm_send(listener, COUNT);
	pvm_recv(listener, COUNT);
	pvm_upkint(&count, 1, 1);
	return count;
}

static int child(const char *what, int victim, int size)
{
	char *data = calloc(size, 1);

	if (strcmp(what, "echo") == 0) {
		while (pvm_recv(pvm_parent(), PING) > 0) {
			pvm_initsend(PvmDataDefault);
			pvm_send(pvm_parent(), PING);
		}
	}
	pvm_initsend(PvmDataDefault);
	pvm_send(pvm_parent(), READY);
	if (strcmp(what, "deaf") == 0)
		for (;;)
			pause();
	if (strcmp(what, "listener") == 0)
		count();
	for (;;) {
		pvm_initsend(PvmDataDefault);
		pvm_pkbyte(data, size, 1);
		if (pvm_send(victim, DATA) < 0)
			break;
	}
	return 1;
}

static int start(char *self, char *what, int victim, char *size, int elsewhere)
{
	int hosts, tid = 0, where = PvmTaskDefault;
	char number[16], *words[4];

	sprintf(number, "%d", victim);
	words[0] = what;
	words[1] = number;
	words[2] = size;
	words[3] = NULL;
	pvm_config(&hosts, NULL, NULL);
	if (hosts > 1)
		where = PvmTaskHost | (elsewhere ? PvmHostCompl : 0);
	if (pvm_spawn(self, words, where, ".", 1, &tid) != 1)
		exit(3);
	return tid;
}

int main(int argc, char **argv)
{
	int echo, victim, flood, before;
	double seconds;
	char *size;

	if (argc < 2)
		return 2;
	if (pvm_parent() > 0)
		return child(argv[1], atoi(argv[2]), atoi(argv[3]));
	seconds = atof(argv[1]);
	size = argc > 2 ? argv[2] : "1000";
	echo = start(argv[0], "echo", 0, size, 1);
	bounce(echo);
	measure("alone", echo, seconds);
	victim = start(argv[0], argc > 2 ? "listener" : "deaf", 0, size, 1);
	pvm_recv(victim, READY);
	flood = start(argv[0], "flood", victim, size, 0);
	pvm_recv(flood, READY);
	if (argc > 2) {
		while (received(victim) == 0)
			usleep(1000);
		before = received(victim);
	}
	measure("beside", echo, seconds);
	if (argc > 2)
		printf("received %d\n", received(victim) - before);
	printf("sender %s\n", pvm_pstat(flood) == PvmOk ? "waits" : "is gone");
	pvm_kill(flood);
	pvm_kill(victim);
	pvm_kill(echo);
	pvm_exit();
	return 0;
}
