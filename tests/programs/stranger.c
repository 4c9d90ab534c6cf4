/*
 * stranger SOCKET PID FILE...: what a process of another user can do to a daemon. It says what succeeded of: connecting to
 * the socket, being heard there, signalling the process, reading each file.
 * stranger --lurk SOCKET: waits at a socket for those who take it for a daemon's, and says who brought what.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

static int open_socket(const char *path, struct sockaddr_un *address)
{
	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	strncpy(address->sun_path, path, sizeof address->sun_path - 1);
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static void try_connecting(const char *path)
{
	/* The header of a TM_CONNECT: to the daemon, from nobody yet, with no body. */
	static const char header[16] = { (char)0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3 };
	struct sockaddr_un address;
	char answer[16];
	int sock = open_socket(path, &address);

	signal(SIGPIPE, SIG_IGN);
	if (connect(sock, (struct sockaddr *)&address, sizeof address) == 0) {
		printf("connected\n");
		if (write(sock, header, sizeof header) > 0 && read(sock, answer, sizeof answer) > 0)
			printf("heard\n");
	}
	close(sock);
}

static void try_reading(const char *path)
{
	char piece[16];
	FILE *file = fopen(path, "r");

	if (file && fread(piece, 1, sizeof piece, file) > 0)
		printf("read %s\n", path);
	if (file)
		fclose(file);
}

static int lurk(const char *path)
{
	struct sockaddr_un address;
	char piece[4096];
	int sock = open_socket(path, &address), caller;

	if (bind(sock, (struct sockaddr *)&address, sizeof address) != 0 || listen(sock, 5) != 0)
		return 1;
	chmod(path, 0777);
	printf("lurking\n");
	fflush(stdout);
	while ((caller = accept(sock, NULL, NULL)) >= 0) {
		printf("brought %d\n", (int)read(caller, piece, sizeof piece));
		fflush(stdout);
		close(caller);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int i;

	if (argc == 3 && strcmp(argv[1], "--lurk") == 0)
		return lurk(argv[2]);
	if (argc < 3)
		return 2;
	try_connecting(argv[1]);
	if (kill(atoi(argv[2]), 0) == 0)
		printf("signalled\n");
	for (i = 3; i < argc; i++)
		try_reading(argv[i]);
	printf("done as %d\n", (int)geteuid());
	return 0;
}
