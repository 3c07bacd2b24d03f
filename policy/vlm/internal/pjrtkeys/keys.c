#include "keys.h"

#include <stdlib.h>

#include "_cgo_export.h"

static create_function real_create;

static _Thread_local uintptr_t current;
static _Thread_local int created;

static pjrt_error *get(get_args *a) { return pjrtkeysGet(a); }
static pjrt_error *try_get(try_get_args *a) { return pjrtkeysTryGet(a); }
static pjrt_error *put(put_args *a) { return pjrtkeysPut(a); }

static pjrt_error *create(create_args *a) {
	// An older caller's struct ends before try_get.
	if (current && a->size >= offsetof(create_args, try_get_user) + sizeof a->try_get_user) {
		a->get = get;
		a->put = put;
		a->try_get = try_get;
		a->get_user = a->put_user = a->try_get_user = (void *)current;
		created++;
	}
	return real_create(a);
}

void *pjrtkeys_create(void *real) {
	real_create = (create_function)real;
	return (void *)create;
}

int pjrtkeys_use(uintptr_t handle) {
	int n = created;
	current = handle;
	created = 0;
	return n;
}

pjrt_error *pjrtkeys_fail(make_error *make, int code, const char *message, size_t length) {
	return (*make)(code, message, length);
}

static void free_value(char *value) { free(value); }

void pjrtkeys_give(get_args *a, char *value, size_t length) {
	a->value = value;
	a->value_length = length;
	a->free_value = free_value;
}

void pjrtkeys_try_give(try_get_args *a, char *value, size_t length) {
	a->value = value;
	a->value_length = length;
	a->free_value = free_value;
}
