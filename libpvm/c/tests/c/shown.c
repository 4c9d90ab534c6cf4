/* What a program does with messages that it was shown before it receives them: it reads, frees, sends on and renames them. */
#include "to_me.h"

/* Probing brings in what has come. */
static int probed(int tag)
{
	int id;

	while (!(id = pvm_probe(-1, tag)))
		usleep(1000);
	return id;
}

static void is_read_before(void)
{
	int id;

	send_to_me(1, 10);
	id = probed(1);
	SHOW(pvm_setrbuf(id));
	printf("%d\n", number());
	printf("still there: %d\n", pvm_probe(-1, 1) == id);
	SHOW(pvm_setrbuf(0) == id);
	printf("received: %d\n", pvm_recv(-1, 1) == id);
	printf("from the beginning: %d\n", number());
	SHOW(pvm_nrecv(-1, 1));
}

static void is_freed(void)
{
	int id;

	send_to_me(2, 20);
	send_to_me(2, 21);
	id = probed(2);
	SHOW(pvm_freebuf(id));
	ID(pvm_recv(-1, 2));
	printf("the next: %d\n", number());
	SHOW(pvm_nrecv(-1, 2));
}

/* A receive call frees the buffer that is read, also if that was not received. */
static void is_read_and_freed(void)
{
	int id;

	send_to_me(3, 30);
	send_to_me(4, 40);
	id = probed(3);
	pvm_setrbuf(id);
	printf("%d\n", number());
	ID(pvm_recv(-1, 4));
	printf("%d\n", number());
	SHOW(pvm_nrecv(-1, 3));
	send_to_me(3, 31);
	send_to_me(3, 32);
	ID(pvm_recv(-1, 3));
	printf("%d\n", number());
	ID(pvm_recv(-1, 3));
	printf("%d\n", number());
	SHOW(pvm_nrecv(-1, -1));
}

/* And so does the next message to be sent. */
static void is_sent_on(void)
{
	int id;

	send_to_me(5, 50);
	id = probed(5);
	ID(pvm_setsbuf(id));
	SHOW(pvm_send(me, 6));
	send_to_me(7, 70);
	ID(pvm_recv(-1, 7));
	printf("%d\n", number());
	ID(pvm_recv(-1, 6));
	printf("%d\n", number());
	SHOW(pvm_nrecv(-1, -1));
}

static int (*builtin)(int, int, int);
static int shown;

static int the_last(int id, int tid, int tag)
{
	shown++;
	return builtin(id, tid, tag) ? shown + 1 : 0;
}

static void is_matched(void)
{
	int i;

	for (i = 0; i < 3; i++)
		send_to_me(8, 80 + i);
	send_to_me(9, 90);
	probed(9);
	builtin = pvm_recvf(the_last);
	for (i = 0; i < 3; i++) {
		shown = 0;
		ID(pvm_nrecv(-1, 8));
		printf("%d of %d\n", number(), shown);
	}
	SHOW(pvm_nrecv(-1, 8));
	pvm_recvf(NULL);
	ID(pvm_nrecv(-1, 9));
	printf("%d\n", number());
}

int main(void)
{
	begin();
	ID(me = pvm_mytid());
	pvm_setopt(PvmAutoErr, 0);
	is_read_before();
	is_freed();
	is_read_and_freed();
	is_sent_on();
	is_matched();
	SHOW(pvm_exit());
	return 0;
}
