/* SPDX-License-Identifier: BSD-2-Clause */
/* hwt-jobs: its commands, their options, and their help. */
#include "jobs.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The options of all commands, then those of some.  Each has a letter, even if it has only a long name for users. */
#define EVERYWHERE "dSjChW"
static const struct option options[] = {
	{ "database", required_argument, NULL, 'd' },
	{ "schema", required_argument, NULL, 'S' },
	{ "json", no_argument, NULL, 'j' },
	{ "no-color", no_argument, NULL, 'C' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'W' },
	{ "group", required_argument, NULL, 'g' },
	{ "no-group", no_argument, NULL, 'G' },
	{ "key", required_argument, NULL, 'k' },
	{ "state", required_argument, NULL, 's' },
	{ "all", no_argument, NULL, 'a' },
	{ "yes", no_argument, NULL, 'y' },
	{ "number", required_argument, NULL, 'n' },
	{ "at", required_argument, NULL, 't' },
	{ "in", required_argument, NULL, 'I' },
	{ "data", required_argument, NULL, 'E' },
	{ "every", required_argument, NULL, 'e' },
	{ "cron", required_argument, NULL, 'c' },
	{ "zone", required_argument, NULL, 'z' },
	{ "grace", required_argument, NULL, 'A' },
	{ "spread", required_argument, NULL, 'P' },
	{ "priority", required_argument, NULL, 'p' },
	{ "replace", no_argument, NULL, 'R' },
	{ "revive", no_argument, NULL, 'V' },
	{ "keep-due", no_argument, NULL, 'D' },
	{ "make", no_argument, NULL, 'M' },
	{ "interval", required_argument, NULL, 'i' },
	{ "prometheus", no_argument, NULL, 'T' },
	{ "count", no_argument, NULL, 'K' },
	{ "running", required_argument, NULL, 'N' },
	{ "burst", required_argument, NULL, 'B' },
	{ "unset", no_argument, NULL, 'U' },
	{ "listen", required_argument, NULL, 'L' },
	{ "unix", required_argument, NULL, 'u' },
	{ "token-file", required_argument, NULL, 'F' },
	{ "changes", no_argument, NULL, 'O' },
	{ "behind-proxy", no_argument, NULL, 'X' },
	{ "host", required_argument, NULL, 'H' },
	{ NULL, 0, NULL, 0 },
};

#define SELECTION                                                                                                      \
	"  ID...                   these\n"                                                                            \
	"  KIND --key KEY          the one of that key; --group GROUP: in that group\n"                                \
	"  KIND --all              all of the kind; --group GROUP: of that group; --no-group: of none\n"               \
	"  -y, --yes               do not ask; cancel --all needs it where nobody can be asked\n"
#define TIMES "  TIME is 90s, 2h30m, now, 18:00, tomorrow 9:00, 2026-12-01T10:00 (of this place; or with Z or +01:00)\n"

static const struct command {
	const char *name, *takes, *says, *more;
	const char *letters; /* of its options */
	int (*run)(struct jobs *jobs);
} commands[] = {
	{ "list", "[KIND]", "timeouts, kind by kind, in order of time",
	  "  -s, --state STATES      pending,running,failed: some of these\n"
	  "  -g, --group GROUP       of that group; --no-group: of none\n"
	  "  -n, --number N          no more than these; 100, with --json all\n"
	  "\n"
	  "  hwt-jobs list mail --state failed\n"
	  "  hwt-jobs list mail --json | jq -r '.[].key'\n",
	  "sgGn", list },
	{ "show", "ID | KIND --key KEY", "all about one, with its data",
	  "  -k, --key KEY           the one of that key; --group GROUP: in that group\n"
	  "\n"
	  "  hwt-jobs show 116368747440810\n"
	  "  hwt-jobs show mail --key invoice-17 --json\n",
	  "kg", show },
	{ "put", "KIND [DATA]", "puts one, and prints its id; DATA - is read from the input",
	  "      --data DATA         the same as DATA\n"
	  "  -t, --at TIME           when it is due; now\n"
	  "      --in DURATION       so long from now\n"
	  "  -k, --key KEY           nothing is put if the key is in use; --replace: then that one gets all of this\n"
	  "                          --revive: then it is pending again if it has failed\n"
	  "                          --keep-due: then that series gets these settings, and what is due still runs\n"
	  "  -e, --every DURATION    again and again\n"
	  "  -c, --cron LINE         by a cron line; -z, --zone ZONE: in that zone\n"
	  "  -g, --group GROUP       of that group\n"
	  "  -p, --priority N        -100 to 100\n"
	  "      --grace DURATION    a run that would start later than that does not start\n"
	  "      --spread DURATION   of a series: due at a random moment within that\n"
	  "      --make              makes the kind if there is none\n" TIMES "\n"
	  "  hwt-jobs put mail 'to: alice' --at 'tomorrow 9:00' --key alice\n"
	  "  hwt-jobs put report --cron '30 6 * * 1-5' --zone Europe/Berlin --key daily --keep-due\n"
	  "  hwt-jobs put mail - --at 90s <message\n",
	  "tIEkRVDeczgpAPM", put },
	{ "cancel", "ID... | KIND --key KEY | KIND --all", "ends them; what has failed is removed",
	  SELECTION "  -s, --state STATES      only what is pending, running, failed\n"
		    "\n"
		    "  hwt-jobs cancel 116368747440810\n"
		    "  hwt-jobs cancel mail --all --group 'tenant 9'\n"
		    "  hwt-jobs cancel mail --all --state failed --yes\n",
	  "kgGasy", cancel },
	{ "move", "ID... | KIND --key KEY | KIND --all", "gives them another time",
	  "  -t, --at TIME           when they are due\n"
	  "      --in DURATION       so long from now\n" SELECTION
	  "  -s, --state STATES      pending, or failed, or both; pending\n" TIMES "\n"
	  "  hwt-jobs move 116368747440810 --at 18:00\n"
	  "  hwt-jobs move mail --all --in 2h\n",
	  "tIkgGasy", move },
	{ "retry", "ID... | KIND --key KEY | KIND --all", "starts again what has failed",
	  SELECTION "\n"
		    "  hwt-jobs retry mail --all\n",
	  "kgGay", retry },
	{ "pause", "KIND", "begins nothing more of it until it is resumed; what runs goes on",
	  "  -g, --group GROUP       of that group alone\n"
	  "\n"
	  "  hwt-jobs pause mail\n"
	  "  hwt-jobs pause mail --group 'tenant 9'\n",
	  "g", pause_it },
	{ "resume", "KIND", "goes on with what was paused",
	  "  -g, --group GROUP       with that group\n"
	  "\n"
	  "  hwt-jobs resume mail\n",
	  "g", resume },
	{ "limit", "KIND", "how much of a group may run, in all processes together",
	  "  -g, --group GROUP       of that group; otherwise of each that has no limits of its own\n"
	  "      --running N         no more runs at once; 0: as many as there are threads\n"
	  "  -e, --every DURATION    no more than one start in so long; --burst N: so many at once after a rest\n"
	  "      --unset             no limits\n"
	  "\n"
	  "  hwt-jobs limit mail --running 3\n"
	  "  hwt-jobs limit mail --group 'tenant 9' --every 200ms --burst 10\n"
	  "  hwt-jobs limit mail --group 'tenant 9' --running 0    none for that one, whatever the others have\n"
	  "  hwt-jobs limit mail --group 'tenant 9' --unset        those of the others\n",
	  "geNBU", limit },
	{ "groups", "KIND", "which of its groups are paused, or have limits of their own",
	  "\n"
	  "  hwt-jobs groups mail\n"
	  "  hwt-jobs groups mail --json | jq -r '.[] | select(.paused) | .group'\n",
	  "", groups },
	{ "stats", "[KIND]", "the kinds: who runs them, what has failed, how old the oldest is",
	  "      --prometheus        as text for Prometheus\n"
	  "      --count             how many are pending, running and failed; reads all of them\n"
	  "\n"
	  "  hwt-jobs stats\n"
	  "  hwt-jobs stats mail --count\n"
	  "  hwt-jobs stats --prometheus >/var/lib/node-exporter/jobs.prom.new\n",
	  "TK", stats },
	{ "top", "[KIND]", "a page that draws itself again: kinds, groups, processes; q ends it",
	  "  -i, --interval SECONDS  how often; 2\n"
	  "\n"
	  "  hwt-jobs top\n"
	  "  hwt-jobs top --json     one page, and the end\n",
	  "i", top },
	{ "serve", "", "a page to look at, over HTTP: kinds, groups, lists, one timeout; metrics and JSON for programs",
	  "      --listen ADDRESS:PORT   127.0.0.1:8377; port 0: any that is free\n"
	  "      --unix PATH             a socket in the file system: this user and root need no token there\n"
	  "      --token-file FILE       its first line, of 16 bytes or more, is the token; mode 0600.  Without it\n"
	  "                              a token is made, and is in the URL\n"
	  "      --changes               the page can cancel, retry, move, pause, resume, limit; else it only looks\n"
	  "      --behind-proxy          something in front does TLS; needed for an address that others reach.\n"
	  "                              All need the token: with --unix it goes with --token-file\n"
	  "      --host NAME             a name by which the proxy is asked; again for more of them\n"
	  "\n"
	  "  hwt-jobs serve\n"
	  "  hwt-jobs serve --changes --unix /run/jobs.sock\n"
	  "  curl -H \"Authorization: Bearer $(cat token)\" 'http://127.0.0.1:8377/api/list?kind=mail&state=failed'\n",
	  "LuFOXH", serve },
	{ "remove", "KIND", "removes a kind that has no timeouts and that nobody runs",
	  "\n"
	  "  hwt-jobs remove old-mail\n",
	  "", remove_kind },
	{ "vacuum", "", "what the database has to clean up, and advice",
	  "\n"
	  "  hwt-jobs vacuum\n",
	  "", vacuum },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * What went wrong
 */

static void say(const struct jobs *jobs, const char *text)
{
	const struct command *current = jobs->command;

	fflush(stdout);
	if (jobs->json) {
		fputs("{\"error\": ", jobs->err);
		json_text(jobs->err, text);
		fputs("}\n", jobs->err);
		return;
	}
	fprintf(stderr, "hwt-jobs%s%s: ", current ? " " : "", current ? current->name : "");
	print_plain(stderr, text);
	fputc('\n', stderr);
}

int complain(const struct jobs *jobs, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	say(jobs, text);
	return WRONG_USE;
}

int report(struct jobs *jobs, int rc, const char *what)
{
	char text[512];
	const char *why = hwt_store_error();
	bool plain = strcmp(what, jobs->command->name) == 0;

	(void)snprintf(text, sizeof(text), "%s%s%s", plain ? "" : what, plain ? "" : ": ", *why ? why : strerror(rc));
	jobs->failure = rc;
	say(jobs, text);
	return rc == ENOENT || rc == EBUSY || rc == EEXIST ? NOT_DONE : rc == EINVAL ? WRONG_USE : NO_DATABASE;
}

/* How many characters have to be changed, added or left out; words that are long are cut. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[65], n = (unsigned)strnlen(b, 64), m = (unsigned)strnlen(a, 64);

	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; i <= m; i++) {
		unsigned before = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= n; j++) {
			unsigned change = before + (a[i - 1] != b[j - 1]),
				 least = row[j] < row[j - 1] ? row[j] : row[j - 1];

			before = row[j];
			row[j] = change < least + 1 ? change : least + 1;
		}
	}
	return row[n];
}

const char *nearest(const char *word, const char *const *words, size_t n)
{
	const char *best = NULL;
	unsigned least = (unsigned)strnlen(word, 64) / 3 + 2;

	for (size_t i = 0; i < n; i++) {
		unsigned apart = distance(word, words[i]);

		if (apart < least) {
			least = apart;
			best = words[i];
		}
	}
	return best;
}

/*
 * Help
 */

static int help(const struct command *command)
{
	if (command) {
		printf("hwt-jobs %s%s%s\n  %s\n\n%s", command->name, *command->takes ? " " : "", command->takes,
		       command->says, command->more);
		return DONE;
	}
	puts("hwt-jobs looks into a store of timeouts, and changes what is there.\n\n"
	     "usage: hwt-jobs [-d URL] COMMAND ...\n");
	for (size_t i = 0; i < COUNT(commands); i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].says);
	puts("\n  -d, --database URL      sqlite:PATH, or postgresql://... ; or HWT_STORE_URL says it\n"
	     "      --schema NAME       the prefix of the tables; hwt\n"
	     "      --json              for programs: on stdout JSON, on stderr errors as JSON\n"
	     "      --no-color          as NO_COLOR=1 in the environment\n"
	     "      --version           which of its versions this is\n"
	     "\nhwt-jobs COMMAND --help says more.  It ends with 0: done, 1: not there, running or in use,\n"
	     "2: wrong use, 3: the database.");
	return DONE;
}

/*
 * Options
 */

static bool read_states(struct jobs *jobs, const char *text)
{
	static const char *const names[] = { "pending", "running", "failed" };

	while (*text) {
		size_t len = strcspn(text, ","), i = 0;

		while (i < COUNT(names) && (strlen(names[i]) != len || strncmp(text, names[i], len) != 0))
			i++;
		if (i == COUNT(names))
			return false;
		jobs->states |= 1u << (i + 1);
		text += len + (text[len] == ',');
	}
	return jobs->states != 0;
}

static bool read_number(const char *text, int64_t least, int64_t most, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	return end != text && *end == '\0' && errno == 0 && *value >= least && *value <= most;
}

static int64_t most_of(int letter)
{
	return letter == 'p' ? 100 : letter == 'i' ? 86400 : 1000000000;
}

static int set_number(struct jobs *jobs, int letter, const char *text)
{
	int64_t value = 0, least = letter == 'p' ? -100 : letter != 'N';

	if (letter == 's')
		return read_states(jobs, text) ? DONE
					       : complain(jobs, "\"%s\" is no state: pending, running, failed", text);
	if (!read_number(text, least, most_of(letter), &value))
		return complain(jobs, "\"%s\" is no number from %" PRId64 " to %" PRId64, text, least, most_of(letter));
	if (letter == 'p')
		jobs->priority = (int)value;
	else if (letter == 'N')
		jobs->running = value;
	else if (letter == 'B')
		jobs->burst = value;
	else
		jobs->limit = value; /* of rows, or seconds */
	return DONE;
}

bool add_host(struct jobs *jobs, const char *name)
{
	if (jobs->host_count == COUNT(jobs->hosts))
		return false;
	jobs->hosts[jobs->host_count++] = name;
	return true;
}

static int set(struct jobs *jobs, int letter, const char *value)
{
	struct {
		int letter;
		bool *flag;
		const char **text;
	} const places[] = {
		{ 'd', NULL, &jobs->url },          { 'S', NULL, &jobs->schema },     { 'j', &jobs->json, NULL },
		{ 'g', NULL, &jobs->group },        { 'k', NULL, &jobs->key },        { 't', NULL, &jobs->when },
		{ 'e', NULL, &jobs->every },        { 'c', NULL, &jobs->cron },       { 'z', NULL, &jobs->zone },
		{ 'A', NULL, &jobs->grace },        { 'P', NULL, &jobs->spread },     { 'G', &jobs->no_group, NULL },
		{ 'a', &jobs->all, NULL },          { 'y', &jobs->yes, NULL },        { 'R', &jobs->replace, NULL },
		{ 'V', &jobs->revive, NULL },       { 'M', &jobs->make, NULL },       { 'T', &jobs->prometheus, NULL },
		{ 'U', &jobs->unset, NULL },        { 'K', &jobs->count, NULL },      { 'W', &jobs->version, NULL },
		{ 'D', &jobs->keep_due, NULL },     { 'I', NULL, &jobs->in },         { 'E', NULL, &jobs->data },
		{ 'O', &jobs->changes, NULL },      { 'L', NULL, &jobs->listen },     { 'u', NULL, &jobs->unix_path },
		{ 'X', &jobs->behind_proxy, NULL }, { 'F', NULL, &jobs->token_file },
	};

	if (letter == 'C')
		jobs->colours = false;
	for (size_t i = 0; i < COUNT(places); i++)
		if (places[i].letter == letter && places[i].flag)
			*places[i].flag = true;
		else if (places[i].letter == letter)
			*places[i].text = value;
	if (letter == 'H' && !add_host(jobs, value))
		return complain(jobs, "no more than %zu names", COUNT(jobs->hosts));
	return strchr("spniNB", letter) ? set_number(jobs, letter, value) : DONE;
}

static int no_option(struct jobs *jobs, const char *word)
{
	const struct command *current = jobs->command;
	const char *names[COUNT(options)], *near;
	size_t n = 0;

	for (size_t i = 0; options[i].name; i++)
		if (strchr(EVERYWHERE, options[i].val) || (current && strchr(current->letters, options[i].val)))
			names[n++] = options[i].name;
	near = strncmp(word, "--", 2) == 0 ? nearest(word + 2, names, n) : NULL;
	if (near)
		return complain(jobs, "there is no option %s; did you mean --%s?", word, near);
	return complain(jobs, "there is no option %s: hwt-jobs%s%s --help lists them", word, current ? " " : "",
			current ? current->name : "");
}

/* As it was written, or by its long name. */
static void name_option(int letter, const char *word, char *text, size_t size)
{
	(void)snprintf(text, size, "%s", word);
	if (letter == '?' && optopt != 0)
		(void)snprintf(text, size, "-%c", optopt);
	for (size_t i = 0; options[i].name; i++)
		if (options[i].val == (letter == '?' || letter == ':' ? optopt : letter))
			(void)snprintf(text, size, "--%s", options[i].name);
}

/* By the whole of its long name; NULL: none. */
static const struct option *find_option(const char *name, size_t len)
{
	for (const struct option *option = options; option->name; option++)
		if (strlen(option->name) == len && strncmp(option->name, name, len) == 0)
			return option;
	return NULL;
}

enum takes option_takes(const struct jobs *jobs, const char *name)
{
	const struct option *option = find_option(name, strlen(name));

	return !option || !strchr(jobs->command->letters, option->val) ? NO_OPTION
	       : option->has_arg == no_argument                        ? TAKES_NOTHING
								       : TAKES_VALUE;
}

int give_option(struct jobs *jobs, const char *name, const char *value)
{
	enum takes takes = option_takes(jobs, name);

	if (takes == NO_OPTION)
		return complain(jobs, "%s has no option \"%s\"", jobs->command->name, name);
	if ((takes == TAKES_VALUE) != (value != NULL))
		return complain(jobs, value ? "%s is true or false" : "%s needs a value", name);
	return set(jobs, find_option(name, strlen(name))->val, value);
}

/* Whether the value of the last of some letters is the next word. */
static bool takes_next(const char *letters)
{
	for (; *letters; letters++)
		for (const struct option *option = options; option->name; option++)
			if (option->val == *letters && option->has_arg == required_argument)
				return letters[1] == '\0';
	return false;
}

/*
 * getopt_long takes the beginning of a name for the whole.  What a script says would mean another option, or none, in a
 * later version.
 */
static int check_names(struct jobs *jobs, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		bool is_long = strncmp(word, "--", 2) == 0;
		size_t len = strcspn(word, "=");
		const struct option *option = is_long ? find_option(word + 2, len - 2) : NULL;
		char name[64];

		if (strcmp(word, "--") == 0 || (word[0] != '-' && !jobs->command))
			return DONE;
		if (is_long && !option) {
			(void)snprintf(name, sizeof(name), "%.*s", (int)len, word);
			return no_option(jobs, name);
		}
		if (is_long)
			i += option->has_arg == required_argument && word[len] == '\0';
		else if (word[0] == '-')
			i += takes_next(word + 1);
	}
	return DONE;
}

/* Options, and with a command words in between. */
static int parse(struct jobs *jobs, int argc, char **argv, bool *asked)
{
	const struct command *current = jobs->command;
	const char *letters = current ? ":d:jhg:k:s:ayn:t:e:c:z:p:i:" : "+:d:jh";
	int letter, rc = check_names(jobs, argc, argv);
	char name[128];

	opterr = 0;
	optind = current ? 0 : 1;
	while (rc == DONE && !*asked && (letter = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		name_option(letter, argv[optind > 1 ? optind - 1 : 1], name, sizeof(name));
		if (letter == ':')
			rc = complain(jobs, "%s needs a value", name);
		else if (letter == '?' ||
			 !(strchr(EVERYWHERE, letter) || (current && strchr(current->letters, letter))))
			rc = no_option(jobs, name);
		else if (letter == 'h')
			*asked = true;
		else
			rc = set(jobs, letter, optarg);
	}
	return rc;
}

/* Refuses --group and --no-group where the command would ignore them: it would cancel others than were meant. */
int check_group(const struct jobs *jobs)
{
	const struct command *current = jobs->command;

	if (jobs->group && jobs->no_group)
		return complain(jobs, "--group and --no-group exclude each other");
	if ((jobs->group || jobs->no_group) && strchr(current->letters, 'k') && !jobs->key && !jobs->all &&
	    current->run != put)
		return complain(jobs, "--group goes with --key, or with --all: an id names one");
	return jobs->no_group && jobs->key
		   ? complain(jobs, "--no-group goes with --all: a key without --group has none")
		   : DONE;
}

int find_command(struct jobs *jobs, const char *name)
{
	const char *names[COUNT(commands)], *near;

	for (size_t i = 0; i < COUNT(commands); i++) {
		names[i] = commands[i].name;
		if (strcmp(name, commands[i].name) == 0)
			jobs->command = &commands[i];
	}
	if (jobs->command)
		return DONE;
	near = nearest(name, names, COUNT(names));
	return near ? complain(jobs, "there is no command \"%s\"; did you mean \"%s\"?", name, near)
		    : complain(jobs, "there is no command \"%s\": hwt-jobs --help lists them", name);
}

int run_command(struct jobs *jobs)
{
	return jobs->command->run(jobs);
}

/* An open would make a file of a name that is misspelt. */
static bool is_missing(const struct jobs *jobs)
{
	return strncmp(jobs->url, "sqlite:", 7) == 0 && !jobs->make && access(jobs->url + 7, F_OK) != 0;
}

/* A server that only looks cannot write to a file either. */
static int open_store(struct jobs *jobs, const hwt_store_config *config, char *error, size_t size)
{
	char looks[4096 + 32];
	bool ro = jobs->command->run == serve && !jobs->changes && strncmp(jobs->url, "sqlite:", 7) == 0 &&
		  snprintf(looks, sizeof(looks), "sqlite:file:%s?mode=ro", jobs->url + 7) < (int)sizeof(looks);

	return hwt_store_open(&jobs->store, ro ? looks : jobs->url, config, error, size);
}

static int run(struct jobs *jobs)
{
	hwt_store_config config = HWT_STORE_CONFIG_INIT;
	char error[512];
	int rc;

	if (!jobs->url)
		jobs->url = getenv("HWT_STORE_URL");
	if (!jobs->url)
		return complain(jobs, "which database: -d sqlite:PATH, -d postgresql://..., or HWT_STORE_URL");
	if (is_missing(jobs)) {
		(void)complain(jobs, "there is no file %s; put --make makes it", jobs->url + 7);
		return NO_DATABASE;
	}
	config.schema = jobs->schema;
	if (jobs->json)
		config.warn = NULL;
	rc = open_store(jobs, &config, error, sizeof(error));
	if (rc != 0) {
		say(jobs, error);
		return rc == EINVAL ? WRONG_USE : NO_DATABASE;
	}
	rc = run_command(jobs);
	(void)hwt_store_close(jobs->store);
	return rc;
}

/* Reports it if standard output could not take everything: the end of a list may be missing. */
static int check_output(const struct jobs *jobs, int rc)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return rc;
	(void)complain(jobs, "the output: %s", strerror(errno));
	return rc == DONE ? NO_DATABASE : rc;
}

int main(int argc, char **argv)
{
	const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
	struct jobs jobs = { .out = stdout, .err = stderr, .schema = "hwt", .running = -1, .burst = -1 };
	bool asked = false;
	int rc;

	jobs.colours = isatty(STDOUT_FILENO) && !(plain && *plain) && term && strcmp(term, "dumb") != 0;
	rc = parse(&jobs, argc, argv, &asked);
	if (rc != DONE)
		return rc;
	if (jobs.version) {
		printf("hwt-jobs %d.%d.%d\n", HWT_VERSION_MAJOR, HWT_VERSION_MINOR, HWT_VERSION_PATCH);
		return check_output(&jobs, DONE);
	}
	argc -= optind;
	argv += optind;
	if (argc > 0 && strcmp(argv[0], "help") == 0) {
		asked = true;
		argc--;
		argv++;
	}
	if (argc == 0) {
		(void)help(NULL);
		return check_output(&jobs, asked ? DONE : WRONG_USE);
	}
	rc = find_command(&jobs, argv[0]);
	if (rc == DONE && !asked)
		rc = parse(&jobs, argc, argv, &asked);
	if (rc != DONE)
		return rc;
	if (asked)
		return check_output(&jobs, help(jobs.command));
	rc = check_group(&jobs);
	if (rc != DONE)
		return rc;
	jobs.words = argv + optind;
	jobs.n = argc - optind;
	return check_output(&jobs, run(&jobs));
}
