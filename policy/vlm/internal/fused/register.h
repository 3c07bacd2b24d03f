#ifndef VAGEN_FUSED_REGISTER_H
#define VAGEN_FUSED_REGISTER_H

// What a block has; the bits of its attribute "has", as in Go.
enum { HAS_QKV_BIAS = 1, HAS_QK_NORM = 2, HAS_OUT_BIAS = 4, HAS_MLP_BIAS = 8, HAS_PLUS_ONE = 16 };

// fused_able reports whether this processor has what the functions are compiled for.
int fused_able(void);

// fused_register makes the functions known, by the names that they are to have in the order of Go's, to a plugin that
// has been loaded from the path, and sets how many threads work at one. The result is why it could not, or null.
const char *fused_register(const char *path, const char *const *names, int threads);

#endif
