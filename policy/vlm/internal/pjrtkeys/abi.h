// The parts of PJRT's C interface, version 0, for creating clients with key-value callbacks. Every
// struct of arguments begins with its size and a chain of extensions.

#ifndef VAGEN_PJRTKEYS_ABI_H
#define VAGEN_PJRTKEYS_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct pjrt_error pjrt_error;

// make_error is given to a callback, which makes its error with it.
typedef pjrt_error *(*make_error)(int code, const char *message, size_t length);

enum { CODE_DEADLINE_EXCEEDED = 4, CODE_NOT_FOUND = 5, CODE_ALREADY_EXISTS = 6, CODE_INTERNAL = 13 };

typedef struct {
	size_t size;
	void *extensions;
	const char *key;
	size_t key_length;
	int timeout_ms;
	make_error *error;
	void *user;
	char *value;                 // out
	size_t value_length;         // out
	void (*free_value)(char *);  // out
} get_args;

typedef struct {
	size_t size;
	void *extensions;
	const char *key;
	size_t key_length;
	make_error *error;
	void *user;
	char *value;                 // out
	size_t value_length;         // out
	void (*free_value)(char *);  // out
} try_get_args;

typedef struct {
	size_t size;
	void *extensions;
	const char *key;
	size_t key_length;
	const char *value;
	size_t value_length;
	make_error *error;
	void *user;
} put_args;

typedef struct {
	size_t size;
	void *extensions;
	const void *options;
	size_t options_length;
	pjrt_error *(*get)(get_args *);
	void *get_user;
	pjrt_error *(*put)(put_args *);
	void *put_user;
	void *client; // out
	pjrt_error *(*try_get)(try_get_args *);
	void *try_get_user;
} create_args;

typedef pjrt_error *(*create_function)(create_args *);

#endif
