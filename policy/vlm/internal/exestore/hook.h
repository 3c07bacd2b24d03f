#ifndef VAGEN_EXESTORE_HOOK_H
#define VAGEN_EXESTORE_HOOK_H

#include "abi.h"

enum { MAX_PLUGINS = 4 };

// exestore_slot stores the functions of a plugin and returns what replaces its function
// for compiling.
void *exestore_slot(int slot, const functions *f);

// exestore_use has compilations on this thread call Go with the handle; 0 ends that.
void exestore_use(uintptr_t handle);

// The following return an error's text, to be freed, or null.

pjrt_error *exestore_compile(int slot, compile_args *a);
char *exestore_load(int slot, compile_args *a, const void *serialized, size_t length);

// exestore_serialize calls exestoreSave with the bytes of the executable in a.
char *exestore_serialize(int slot, compile_args *a, uintptr_t handle);

// exestore_client writes a text that identifies a client's platform and devices; out
// must be freed.
char *exestore_client(int slot, void *client, char **out);

#endif
