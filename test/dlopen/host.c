/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host PLUGIN [FILLER...]: loads the fillers, each of which may fail, then the plugin twice, and runs it.  Then the
 * same in another thread, which ends after the plugin has been unloaded.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* Converts the answer of dlsym to a function pointer, for which C has no conversion. */
union symbol {
	void *pointer;
	const char *(*run)(void);
};

static const char *load_and_run(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	union symbol symbol;
	const char *wrong;

	if (plugin == NULL)
		return dlerror();
	symbol.pointer = dlsym(plugin, "plugin_run");
	wrong = symbol.pointer == NULL ? dlerror() : symbol.run();
	if (wrong == NULL && dlclose(plugin) != 0)
		wrong = dlerror();
	return wrong;
}

static const char *wrong_in_thread;

static void *load_and_end(void *path)
{
	wrong_in_thread = load_and_run(path);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int loaded = 0;

	if (argc < 2)
		return 2;
	for (int i = 2; i < argc; i++)
		loaded += dlopen(argv[i], RTLD_NOW | RTLD_LOCAL) != NULL;
	if (argc > 2 && loaded == 0) {
		printf("no filler was loaded\n");
		return 1;
	}
	for (int turn = 0; turn < 2; turn++) {
		const char *wrong = load_and_run(argv[1]);

		if (wrong != NULL) {
			printf("%s\n", wrong);
			return 1;
		}
	}
	if (pthread_create(&thread, NULL, load_and_end, argv[1]) != 0 || pthread_join(thread, NULL) != 0)
		return 1;
	if (wrong_in_thread != NULL) {
		printf("%s\n", wrong_in_thread);
		return 1;
	}
	return 0;
}
