package chat

import (
	"context"
	"errors"
	"fmt"

	"vagen/internal/byname"
	"vagen/policy"
)

// Factory makes the policy of a back end. Several goroutines use it at once. If it has a method
// Close, that is called at the end. Settings that it does not have are an error.
type Factory func(ctx context.Context, o Options) (policy.Policy, error)

// Sentinels of a Registry.
var (
	ErrUnknown   = errors.New("unknown name")
	ErrDuplicate = errors.New("the name is already registered")
)

// kind is the kind of a registry's entries.
type kind struct{}

// table is in every registry.
type table = byname.Table[Factory, kind]

func (kind) Kind() byname.Kind {
	return byname.Kind{Package: "chat", Entry: "back end", Unknown: ErrUnknown, Duplicate: ErrDuplicate}
}

// Registry maps names to back ends, as an evaluation's configuration names them in api. The zero value
// is empty and ready, and all methods are safe for concurrent use.
//
// Names() returns the registered names, sorted. Describe(name) returns what a back end is, "" if Register
// got no description; errors are those of New.
type Registry struct {
	table
}

// Builtin returns a new registry with the APIs of this package.
func Builtin() *Registry {
	open := func(_ context.Context, o Options) (policy.Policy, error) { return New(o) }
	r := new(Registry)
	byname.Fill(&r.table, map[string]byname.Entry[Factory]{
		string(OpenAI):    {Value: open, About: "chat completions of OpenAI and many others"},
		string(Anthropic): {Value: open, About: "messages of Anthropic"},
		string(Gemini):    {Value: open, About: "generateContent of Google"},
	})
	return r
}

// reserved is the name of a model in the process, which is no back end of a Registry.
const reserved = "local"

// Register adds a back end under a name, with a description for Describe. The error wraps
// ErrDuplicate when the name is taken.
func (r *Registry) Register(name string, f Factory, about ...string) error {
	if name == reserved {
		return fmt.Errorf("chat: register back end %q: %w for models in the process", name, ErrDuplicate)
	}
	return r.table.Register(name, f, about...)
}

// New makes the policy of the back end that o.API names. The error wraps ErrUnknown if there is none.
func (r *Registry) New(ctx context.Context, o Options) (policy.Policy, error) {
	f, err := byname.Get(&r.table, string(o.API))
	if err != nil {
		return nil, err
	}
	p, err := f(ctx, o)
	if err != nil {
		return nil, err
	}
	if _, err := byname.Made(p, nil); err != nil {
		return nil, fmt.Errorf("chat: back end %q: %w", o.API, err)
	}
	return p, nil
}
