/* The ways to receive: waiting, with a limit of time, probing, with a matching function, without a buffer, handlers. */
#include "to_me.h"

static void in_order(void)
{
	int id;

	send_to_me(1, 10);
	send_to_me(2, 20);
	send_to_me(1, 11);
	ID(pvm_recv(me, 2));
	printf("%d\n", number());
	id = pvm_recv(-1, -1);
	printf("%d\n", number());
	ID(pvm_recv(-1, 1));
	printf("%d, the one before is freed: %d\n", number(), pvm_getrbuf() == id || pvm_freebuf(id) == PvmNoSuchBuf);
	printf("there is one: %d\n", pvm_getrbuf() > 0);
	SHOW(pvm_nrecv(-1, 1));
	SHOW(pvm_getrbuf());
}

static void with_time(void)
{
	struct timeval half = {0, 500000}, nothing = {0, 0};
	double begun = now(), took;
	int i;

	SHOW(pvm_trecv(-1, 3, &half));
	took = now() - begun;
	printf("after half a second: %d\n", took > 0.45 && took < 2);
	SHOW(pvm_trecv(-1, 3, &nothing));
	/* If nothing else runs meanwhile: once in a hundred times. */
	for (i = 0; i < 100; i++) {
		begun = now();
		pvm_trecv(-1, 3, &nothing);
		took = now() - begun < took ? now() - begun : took;
	}
	printf("at once: %d\n", took < 0.1);
	send_to_me(3, 30);
	ID(pvm_trecv(-1, 3, &half));
	printf("%d\n", number());
	send_to_me(3, 31);
	ID(pvm_trecv(-1, 3, NULL));
	printf("%d\n", number());
}

static void probing(void)
{
	int id, tag, tid, length;

	SHOW(pvm_probe(-1, 4));
	send_to_me(4, 40);
	while (!(id = pvm_probe(-1, 4)))
		usleep(1000);
	SHOW(pvm_bufinfo(id, &length, &tag, &tid));
	printf("length %d, tag %d, from me %d\n", length, tag, tid == me);
	printf("again the same: %d\n", pvm_probe(me, -1) == id);
	printf("receiving it: %d\n", pvm_recv(-1, 4) == id);
	printf("%d\n", number());
	SHOW(pvm_probe(-1, 4));
}

static int by_number(int id, int tid, int tag)
{
	int sender, its_tag, length;

	pvm_bufinfo(id, &length, &its_tag, &sender);
	if (tag == 99)
		return PvmDenied;
	if (sender != me)
		return 0;
	return its_tag;
}

static int (*old)(int, int, int);

static int the_old_way(int id, int tid, int tag)
{
	return old(id, tid, tag);
}

static void matching(void)
{
	int tag;

	send_to_me(5, 50);
	send_to_me(9, 90);
	send_to_me(7, 70);
	/* A look into the queue brings in what has come. */
	while (!pvm_probe(-1, 7))
		usleep(1000);
	old = pvm_recvf(by_number);
	printf("there was one: %d\n", old != NULL);
	pvm_bufinfo(pvm_nrecv(-1, -1), NULL, &tag, NULL);
	printf("highest %d\n", tag);
	pvm_bufinfo(pvm_nrecv(-1, -1), NULL, &tag, NULL);
	printf("then %d\n", tag);
	pvm_bufinfo(pvm_nrecv(-1, -1), NULL, &tag, NULL);
	printf("then %d\n", tag);
	send_to_me(1, 1);
	while (!pvm_probe(-1, 1))
		usleep(1000);
	SHOW(pvm_nrecv(-1, 99));
	printf("it was set: %d\n", pvm_recvf(the_old_way) == by_number);
	ID(pvm_recv(-1, 1));
	printf("it was set: %d\n", pvm_recvf(NULL) == the_old_way);
	SHOW(pvm_nrecv(-1, 1));
}

static void without_buffer(void)
{
	double out[3] = {1.5, 2.5, 3.5}, in[2] = {0, 0};
	int from, tag, length, id;

	send_to_me(6, 60);
	id = pvm_recv(-1, 6);
	SHOW(pvm_psend(me, 7, out, 3, PVM_DOUBLE));
	SHOW(pvm_precv(-1, 7, in, 2, PVM_DOUBLE, &from, &tag, &length));
	printf("%g %g from me %d, tag %d, length %d\n", in[0], in[1], from == me, tag, length);
	printf("the receive buffer stays: %d\n", pvm_getrbuf() == id);
	printf("%d\n", number());
	SHOW(pvm_psend(me, 7, out, 0, PVM_INT));
	SHOW(pvm_precv(me, -1, in, 2, PVM_DOUBLE, NULL, NULL, &length));
	printf("length %d\n", length);
	SHOW(pvm_psend(me, 7, out, 1, PVM_DCPLX) == 0);
	ID(pvm_recv(-1, 7));
	SHOW(pvm_upkdouble(in, 2, 1));
	printf("%g %g\n", in[0], in[1]);
}

static int handled, seen, inner[3];

static int handler(int id)
{
	int n = 0;

	seen = pvm_getrbuf() == id;
	pvm_upkint(&n, 1, 1);
	handled += n;
	inner[0] = pvm_recv(-1, -1);
	inner[1] = pvm_spawn("x", NULL, 0, NULL, 1, NULL);
	inner[2] = pvm_getsbuf();
	tell(pvm_mytid(), 9, 800);
	return 0;
}

static void handlers(void)
{
	int id = pvm_addmhf(-1, 8, 0, handler), kept;

	SHOW(id);
	SHOW(pvm_addmhf(me, 8, 0, handler));
	SHOW(pvm_addmhf(-1, -1, -1, handler));
	send_to_me(8, 80);
	kept = pvm_getsbuf();
	ID(pvm_recv(-1, 9));
	printf("%d, handled %d, current in it %d, none to send %d\n", number(), handled, seen, inner[2] == 0);
	printf("waiting calls in it: %d %d\n", inner[0], inner[1]);
	printf("the send buffer is back: %d\n", pvm_getsbuf() == kept);
	SHOW(pvm_probe(-1, 8));
	SHOW(pvm_delmhf(id));
	SHOW(pvm_delmhf(id));
	send_to_me(8, 81);
	ID(pvm_recv(-1, 8));
	printf("%d, handled %d\n", number(), handled);
	printf("the id again: %d\n", pvm_addmhf(1, 2, 3, handler) == id);
}

static void large(void)
{
	static char out[3000000], in[3000000];
	int i;

	for (i = 0; i < (int)sizeof out; i++)
		out[i] = i * 31 + (i >> 8);
	for (i = 0; i < 3; i++) {
		pvm_initsend(i);
		pvm_pkbyte(out, sizeof out, 1);
		SHOW(pvm_send(me, 11));
		pvm_recv(-1, 11);
		memset(in, 0, sizeof in);
		pvm_upkbyte(in, sizeof in, 1);
		printf("right: %d\n", !memcmp(in, out, sizeof in));
	}
}

int main(void)
{
	int *fds;

	begin();
	ID(me = pvm_mytid());
	pvm_setopt(PvmAutoErr, 0);
	ID(pvm_getfds(&fds));
	printf("a descriptor: %d\n", fds[0] > 2);
	in_order();
	with_time();
	probing();
	matching();
	without_buffer();
	handlers();
	large();
	SHOW(pvm_exit());
	return 0;
}
