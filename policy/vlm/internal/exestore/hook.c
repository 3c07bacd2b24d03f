#include "hook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

static functions plugins[MAX_PLUGINS];

// The handle of the Go value that compilations on this thread report to.
static _Thread_local uintptr_t current;

void exestore_use(uintptr_t handle) { current = handle; }

pjrt_error *exestore_compile(int slot, compile_args *a) { return plugins[slot].compile(a); }

static pjrt_error *hook(int slot, compile_args *a) {
	return current ? exestoreCompile(current, slot, a) : exestore_compile(slot, a);
}

// PJRT passes no user data, so each plugin has a function of its own.
static pjrt_error *hook_0(compile_args *a) { return hook(0, a); }
static pjrt_error *hook_1(compile_args *a) { return hook(1, a); }
static pjrt_error *hook_2(compile_args *a) { return hook(2, a); }
static pjrt_error *hook_3(compile_args *a) { return hook(3, a); }

void *exestore_slot(int slot, const functions *f) {
	static pjrt_error *(*const hooks[MAX_PLUGINS])(compile_args *) = {hook_0, hook_1, hook_2, hook_3};
	plugins[slot] = *f;
	return (void *)hooks[slot];
}

static char *copy_of(const char *text, size_t length) {
	char *out = malloc(length + 1);
	if (out) {
		memcpy(out, text, length);
		out[length] = 0;
	}
	return out;
}

// take frees an error and returns its text.
static char *take(const functions *f, const char *call, pjrt_error *e) {
	message_args m = {.size = sizeof m, .error = e};
	f->message(&m);
	size_t n = strlen(call) + 2 + m.length;
	char *out = malloc(n + 1);
	if (out)
		snprintf(out, n + 1, "%s: %.*s", call, (int)m.length, m.message);
	destroy_error_args gone = {.size = sizeof gone, .error = e};
	f->destroy_error(&gone);
	return out;
}

char *exestore_load(int slot, compile_args *a, const void *serialized, size_t length) {
	const functions *f = &plugins[slot];
	load_args l = {.size = sizeof l, .client = a->client, .serialized = serialized, .length = length};
	pjrt_error *e = f->load(&l);
	if (e)
		return take(f, "PJRT_Executable_DeserializeAndLoad", e);
	a->executable = l.executable;
	return NULL;
}

char *exestore_serialize(int slot, compile_args *a, uintptr_t handle) {
	const functions *f = &plugins[slot];
	of_args get = {.size = sizeof get, .of = a->executable};
	pjrt_error *e = f->executable(&get);
	if (e)
		return take(f, "PJRT_LoadedExecutable_GetExecutable", e);
	serialize_args s = {.size = sizeof s, .executable = get.result};
	char *why = NULL;
	if ((e = f->serialize(&s)))
		why = take(f, "PJRT_Executable_Serialize", e);
	else {
		exestoreSave(handle, (void *)s.bytes, s.length);
		if (s.free_owner)
			s.free_owner(s.owner);
	}
	of_args gone = {.size = offsetof(of_args, result), .of = get.result};
	if ((e = f->destroy_executable(&gone)))
		free(take(f, "PJRT_Executable_Destroy", e));
	return why;
}

typedef struct {
	char *text;
	size_t length;
} buffer;

static int add(buffer *b, const void *text, size_t length) {
	char *more = realloc(b->text, b->length + length + 2);
	if (!more)
		return 0;
	memcpy(more + b->length, text, length);
	b->length += length + 1;
	more[b->length - 1] = '\n';
	more[b->length] = 0;
	b->text = more;
	return 1;
}

char *exestore_client(int slot, void *client, char **out) {
	const functions *f = &plugins[slot];
	buffer b = {0};
	text_args v = {.size = sizeof v, .of = client}, all = v;
	pjrt_error *e = f->platform_version(&v);
	if (e)
		return take(f, "PJRT_Client_PlatformVersion", e);
	if (!add(&b, v.result, v.length))
		goto memory;
	if ((e = f->devices(&all)))
		goto failed;
	for (size_t i = 0; i < all.length; i++) {
		of_args d = {.size = sizeof d, .of = ((void *const *)all.result)[i]};
		if ((e = f->description(&d)))
			goto failed;
		text_args kind = {.size = sizeof kind, .of = d.result}, text = kind;
		if ((e = f->kind(&kind)) || (e = f->describe(&text)))
			goto failed;
		if (!add(&b, kind.result, kind.length) || !add(&b, text.result, text.length))
			goto memory;
	}
	*out = b.text;
	return NULL;
failed:
	free(b.text);
	return take(f, "describing the devices", e);
memory:
	free(b.text);
	return copy_of("out of memory", 13);
}
