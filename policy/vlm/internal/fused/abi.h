// What this package needs to know of two binary interfaces of XLA: by which a
// plugin is told of functions (PJRT's FFI extension), and by which it calls them
// (XLA's FFI). Every struct begins with its size, then a chain of extensions.

#ifndef VAGEN_FUSED_ABI_H
#define VAGEN_FUSED_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct extension {
	size_t size;
	int32_t type;
	struct extension *next;
} extension;

typedef struct {
	size_t size;
	extension *extensions;
	int32_t major, minor;
} api_version;

// ---- XLA's FFI, version 0: what a function is called with.

enum { STAGE_EXECUTE = 3, EXTENSION_METADATA = 1, ATTRIBUTE_SCALAR = 3 };
enum { TYPE_PRED = 1, TYPE_S8 = 2, TYPE_S32 = 4, TYPE_U32 = 8, TYPE_F32 = 11, TYPE_BF16 = 16 };

typedef struct {
	size_t size;
	extension *extensions;
	int32_t type;
	void *data;
	int64_t rank;
	int64_t *dims;
} buffer;

typedef struct {
	size_t size;
	extension *extensions;
	int64_t n;
	int32_t *kinds;
	buffer **of;
} buffers;

typedef struct {
	const char *text;
	size_t length;
} span;

typedef struct {
	int32_t type;
	void *value;
} scalar;

typedef struct {
	size_t size;
	extension *extensions;
	int64_t n;
	int32_t *kinds;
	span **names; // sorted
	void **of;
} attributes;

typedef struct failure failure;

typedef struct {
	size_t size;
	extension *extensions;
	const char *message;
	int32_t code; // 13 is an internal error
} failure_args;

typedef struct {
	size_t size;
	extension *extensions;
	api_version version;
	const void *internal;
	failure *(*fail)(failure_args *);
} ffi_api;

typedef struct {
	size_t size;
	extension *extensions;
	const ffi_api *api;
	void *context;
	int32_t stage;
	buffers args, results;
	attributes config;
} call;

typedef struct {
	extension base;
	struct {
		size_t size;
		api_version version;
		uint32_t traits;
	} *metadata;
} metadata_extension;

// ---- PJRT, version 0: how a function is made known.

enum { EXTENSION_FFI = 5 };

typedef struct pjrt_error pjrt_error;

typedef struct {
	size_t size;
	extension *extensions;
	pjrt_error *error;
} pjrt_error_args;

typedef struct {
	size_t size;
	extension *extensions;
	const pjrt_error *error;
	const char *message;
	size_t length;
} pjrt_message_args;

typedef struct {
	size_t size;
	extension *extensions;
	api_version version;
	void (*destroy_error)(pjrt_error_args *);
	void (*message)(pjrt_message_args *);
} pjrt_api;

// Before 2026 the number of an FFI version stood before the function.
typedef struct {
	size_t size;
	const char *name;
	size_t name_length;
	void *function;
	const char *platform;
	size_t platform_length;
	uint32_t traits;
} register_args;

typedef struct {
	size_t size;
	const char *name;
	size_t name_length;
	int32_t version;
	void *function;
	const char *platform;
	size_t platform_length;
	uint32_t traits;
} register_args_2;

typedef struct {
	extension base;
	void *types, *user_data;
	pjrt_error *(*register_function)(void *args);
} ffi_extension;

#endif
