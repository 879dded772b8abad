/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve: a page to look at, and the same as JSON, over HTTP.
 *
 *     serve         options, the loop that accepts, time limits, the end
 *     serve_listen  addresses and sockets
 *     serve_token   the token, sessions, who may ask
 *     serve_http    routes, and the checks before each of them
 *     serve_api     what the routes under /api/ answer
 *     serve_list    a page of a list
 *     serve_history the last ten minutes of each kind
 *     serve_json    reads a JSON object
 *
 * Threads: the main thread accepts, so that the 65th connection gets 503 at once, and closes what takes too long.
 * libmicrohttpd runs one thread for each connection.  So an answer may wait, for the database, or a second after a wrong
 * token, and holds up nobody.  Calls of all threads go to one store, which takes them from any thread; at most CALLS
 * are under way, and so many are its connections to the database.
 */
#ifndef SERVE_H
#define SERVE_H

#include "jobs.h"
#include "select.h"

#include <microhttpd.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <sys/types.h>

#define CONNECTIONS 64
#define CALLS 4
#define SESSIONS 64
#define BODY_MOST ((size_t)1 << 20)
#define REQUEST_NS HWT_S(10) /* to receive it */
#define ANSWER_NS HWT_S(30)  /* to send it */
#define SECRET 64            /* digits of a secret that is made */

/* A connection.  `until_ns`: when the main thread closes it; 0: an answer is being made. */
struct slot {
	int fd; /* -1: free */
	int64_t until_ns;
	bool again;   /* it has had a request */
	bool trusted; /* came by the socket of a file, from this user or root */
};

struct session {
	char cookie[SECRET + 1], page[SECRET + 1]; /* "": free */
	int64_t used_ns;
};

struct server {
	const struct jobs *jobs; /* options, and the store */
	struct MHD_Daemon *daemon;
	int listener;
	struct stat file; /* the socket of --unix */
	char url[256];    /* without the token; "" of a socket in the file system */
	char cookie[64];
	char token[1025];
	struct history *history;
	sem_t calls;
	pthread_mutex_t lock; /* of what is below */
	struct slot slots[CONNECTIONS];
	struct session sessions[SESSIONS];
};

/* A request, from its first line to its answer. */
struct request {
	struct server *server;
	struct MHD_Connection *connection;
	struct slot *slot;
	bool posts;
	char *body; /* with a 0 behind it */
	size_t len;
	bool known;   /* it may look */
	bool too_big; /* the body */
	bool unread;  /* it was answered before its body had come */
};

/* What is sent: text, which is freed, or `fixed`. */
struct answer {
	unsigned status;
	const char *type; /* NULL: JSON */
	char *text;
	const char *fixed;
	size_t len;
	char cookie[256]; /* "": none */
};

/* In serve_listen.c.  DONE, or why not. */
int serve_listen(struct jobs *jobs, struct server *server);
void serve_unlisten(const struct jobs *jobs, struct server *server);
bool is_loopback_name(const char *host);

/* In serve_token.c. */
enum who { NOBODY, BY_TOKEN, BY_COOKIE, BY_SOCKET, GUESSED };
int read_token(struct jobs *jobs, struct server *server);
enum who who_asks(const struct request *request, char page[SECRET + 1]); /* page: the token of its page */
bool log_in(struct server *server, const char *token, struct session *made);
bool same_secret(const char *given, const char *is);
void delay_failure(void);

/* In serve_http.c: callbacks of libmicrohttpd. */
enum MHD_Result serve_request(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
			      const char *version, const char *upload, size_t *upload_len, void **request);
void *serve_begin(void *ctx, const char *uri, struct MHD_Connection *connection);
void serve_end(void *ctx, struct MHD_Connection *connection, void **request, enum MHD_RequestTerminationCode how);
struct answer say_error(unsigned status, const char *text);
struct answer no_memory(unsigned status);
struct answer end_answer(FILE *out, const struct answer *answer); /* closes the stream of its text */

/* In serve.c: a callback, too. */
void serve_connection(void *ctx, struct MHD_Connection *connection, void **slot,
		      enum MHD_ConnectionNotificationCode what);

/* In serve_api.c. */
struct answer answer_command(struct request *request, const char *command); /* of a GET, or of a body */
struct answer answer_metrics(struct request *request, const char *name);
bool begin_call(struct server *server); /* false: the database answers nobody */
void end_call(struct server *server);

/* In serve_list.c: rows of jobs->words[0], or of all kinds. */
struct part {
	const char *prefix, *after; /* of keys; the cursor; NULL: none */
	bool no_data;
};
int list_part(struct jobs *jobs, const struct part *part);

/* In serve_history.c. */
struct history *history_begin(struct server *server); /* NULL: no memory or no thread */
void history_end(struct history *history);
struct answer answer_history(struct request *request, const char *name);

/* In serve_json.c: calls member for each member of an object.  Changes the text.  False: it is no object of plain
 * values, or member said so. */
enum json_value { JSON_TEXT, JSON_NUMBER, JSON_TRUE, JSON_FALSE, JSON_NULL };
bool read_object(char *text, bool (*member)(void *ctx, const char *name, enum json_value type, const char *value),
		 void *ctx);

#endif
