#ifndef VAGEN_PJRTKEYS_KEYS_H
#define VAGEN_PJRTKEYS_KEYS_H

#include "abi.h"

// pjrtkeys_create returns what replaces a plugin's function for creating clients.
void *pjrtkeys_create(void *real);

// pjrtkeys_use has clients that are created on this thread use the store with the handle; 0 ends
// that. It returns how many were created since the last call.
int pjrtkeys_use(uintptr_t handle);

pjrt_error *pjrtkeys_fail(make_error *make, int code, const char *message, size_t length);

// The following give the plugin a value, which it frees.

void pjrtkeys_give(get_args *a, char *value, size_t length);
void pjrtkeys_try_give(try_get_args *a, char *value, size_t length);

#endif
