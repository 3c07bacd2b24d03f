package env

import "context"

type keyOfContext struct{}

// WithKey returns a context for the calls that open one environment. An environment that a
// service hosts is placed by the key: clients with different keys begin at different services,
// and a process that repeats an episode with its key begins at the same one. The key changes
// nothing in the episode.
func WithKey(ctx context.Context, key uint64) context.Context {
	return context.WithValue(ctx, keyOfContext{}, key)
}

// KeyOf returns the key that WithKey put into a context, and whether there is one.
func KeyOf(ctx context.Context) (key uint64, ok bool) {
	key, ok = ctx.Value(keyOfContext{}).(uint64)
	return key, ok
}
