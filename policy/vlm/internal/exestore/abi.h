// The parts of PJRT's C interface, version 0, that this package uses. Every struct of
// arguments begins with its size and a chain of extensions. Positions of functions in
// the plugin's table come from go-xla's own header.

#ifndef VAGEN_EXESTORE_ABI_H
#define VAGEN_EXESTORE_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct pjrt_error pjrt_error;

typedef struct {
	size_t size;
	void *extensions;
	pjrt_error *error;
} destroy_error_args;

typedef struct {
	size_t size;
	void *extensions;
	const pjrt_error *error;
	const char *message;
	size_t length;
} message_args;

typedef struct {
	size_t size;
	void *extensions;
	const char *code;
	size_t code_length;
	const char *format;
	size_t format_length;
} program;

typedef struct {
	size_t size;
	void *extensions;
	void *client;
	const program *program;
	const char *options;
	size_t options_length;
	void *executable; // out
} compile_args;

typedef struct {
	size_t size;
	void *extensions;
	void *client;
	const char *serialized;
	size_t length;
	void *executable; // out
	const char *options;
	size_t options_length;
} load_args;

// of_args is the shape of calls that return a handle for a handle, and, without the
// result, of those that free one.
typedef struct {
	size_t size;
	void *extensions;
	void *of;
	void *result; // out
} of_args;

// text_args is the shape of calls that return a text, or a list with its length.
typedef struct {
	size_t size;
	void *extensions;
	void *of;
	const void *result; // out
	size_t length;      // out
} text_args;

typedef struct {
	size_t size;
	void *extensions;
	const void *executable;
	const char *bytes;             // out
	size_t length;                 // out
	void *owner;                   // out
	void (*free_owner)(void *owner); // out
} serialize_args;

// functions are the entries of the plugin's table that are called.
typedef struct {
	void (*destroy_error)(destroy_error_args *);
	void (*message)(message_args *);
	pjrt_error *(*compile)(compile_args *);
	pjrt_error *(*load)(load_args *);
	pjrt_error *(*serialize)(serialize_args *);
	pjrt_error *(*executable)(of_args *);
	pjrt_error *(*destroy_executable)(of_args *);
	pjrt_error *(*platform_version)(text_args *);
	pjrt_error *(*devices)(text_args *);
	pjrt_error *(*description)(of_args *);
	pjrt_error *(*kind)(text_args *);
	pjrt_error *(*describe)(text_args *);
} functions;

#endif
