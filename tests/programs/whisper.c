/*
 * whisper COUNT SIZE [default]: sends a task on another host COUNT messages of SIZE bytes on a direct route, each full of words that
 * nobody else should read, and has them back. With "default" the library makes the route by itself.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char words[] = "nobody else should read this. ";

static void fill(char *text, int size, int seed)
{
	int i;

	for (i = 0; i < size; i++)
		text[i] = words[(i + seed) % (sizeof words - 1)];
}

/* Sends it and has it back, or the other way about. */
static int exchange(int other, char *text, char *back, int size, int first)
{
	int received = 0;

	if (!first)
		received = pvm_recv(other, 1) > 0 && pvm_upkbyte(back, size, 1) == 0;
	pvm_initsend(PvmDataRaw);
	pvm_pkbyte(first ? text : back, size, 1);
	if (pvm_send(other, 1) < 0)
		return 0;
	if (first)
		received = pvm_recv(other, 1) > 0 && pvm_upkbyte(back, size, 1) == 0 && memcmp(text, back, size) == 0;
	return received;
}

int main(int argc, char **argv)
{
	int count, size, other, i, heard = 0, parent = pvm_parent();
	char *text, *back;

	if (argc < 3)
		return 2;
	count = atoi(argv[1]);
	size = atoi(argv[2]);
	text = malloc(size);
	back = malloc(size);
	if (argc < 4)
		pvm_setopt(PvmRoute, PvmRouteDirect);
	other = parent;
	if (parent <= 0 && pvm_spawn(argv[0], argv + 1, PvmTaskHost | PvmHostCompl, ".", 1, &other) != 1)
		return 3;
	for (i = 0; i < count; i++) {
		fill(text, size, i);
		heard += exchange(other, text, back, size, parent <= 0);
	}
	if (parent <= 0)
		printf("heard %d\n", heard);
	pvm_exit();
	return 0;
}
