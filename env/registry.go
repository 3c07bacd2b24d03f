package env

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"vagen/internal/byname"
)

// Factory makes one environment from its options. It must not keep or change the
// map. Options that it does not know are an error.
type Factory func(config map[string]any) (Env, error)

// Sentinels of a Registry.
var (
	ErrUnknown   = errors.New("unknown name")
	ErrDuplicate = errors.New("the name is already registered")
	// ErrNone means that a factory returned neither an environment nor an error.
	ErrNone = errors.New("its factory returned no environment")
)

// ErrLost is wrapped by the error of an environment whose state was lost for a reason outside
// of it, such as the end of the process that hosted it: the episode cannot be continued, and
// may succeed when it is started again.
var ErrLost = errors.New("the environment was lost")

// kind is the kind of a registry's entries.
type kind struct{}

// table is in every registry.
type table = byname.Table[Factory, kind]

func (kind) Kind() byname.Kind {
	return byname.Kind{Package: "env", Entry: "environment", Unknown: ErrUnknown, Duplicate: ErrDuplicate}
}

// Registry maps names to environments. It holds only what its owner registers. The zero
// value is empty and ready, and all methods are safe for concurrent use.
//
// Register(name, factory, about...) adds an environment under a name, with a description for
// Describe; the error wraps ErrDuplicate when the name is taken. Names() returns the registered
// names, sorted. Describe(name) returns what an agent does in the environment with this name, ""
// if Register got no description; errors are those of New.
type Registry struct {
	table
	rewards byname.Table[RewardFactory, rewardKind]
	formats byname.Table[[]string, formatKind] // sections

	mu        sync.RWMutex // of what follows
	judge     Judge
	otherwise func(name string) Factory
	remote    map[string]struct{}
	closers   []func() error
}

// SetJudge sets the judge of the environments that New makes from now on: it scores
// their claims, and the scores are paid. With nil, the caller has to do that.
func (r *Registry) SetJudge(j Judge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge = j
}

// SetOtherwise sets the factory of names that are not registered: f returns it for each
// name, or nil. With nil, and without f, the default, such names are unknown.
func (r *Registry) SetOtherwise(f func(name string) Factory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.otherwise = f
}

// SetRemote declares that environments of these names run in other processes: their calls
// wait for a service and need no core of this machine, so that a player may make all of them at
// once.
func (r *Registry) SetRemote(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.remote == nil {
		r.remote = map[string]struct{}{}
	}
	for _, name := range names {
		r.remote[name] = struct{}{}
	}
}

// Remote reports whether SetRemote was called with a name.
func (r *Registry) Remote(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.remote[name]
	return ok
}

// New makes an environment by name. The error wraps ErrUnknown when nothing has
// that name and there is no SetOtherwise, and names the nearest one, and ErrNone when the factory
// returned nothing.
func (r *Registry) New(name string, config map[string]any) (Env, error) {
	r.mu.RLock()
	judge, otherwise := r.judge, r.otherwise
	r.mu.RUnlock()
	f, err := byname.Get(&r.table, name)
	if err != nil && otherwise != nil {
		if other := otherwise(name); other != nil {
			f, err = other, nil
		}
	}
	if err != nil {
		return nil, err
	}
	config, rewards, err := r.extended(config)
	if err != nil {
		return nil, err
	}
	e, err := f(config)
	if err == nil && e == nil {
		err = ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("env: %s: %w", name, r.explained(err))
	}
	if c, ok := e.(Claimant); ok && judge != nil && c.Claiming() {
		e = Judged{Env: e, Judge: judge}
	}
	if len(rewards) > 0 {
		e = rewarded{Judged{Env: e}, rewards}
	}
	return e, nil
}

// OnClose adds a function that Close calls, for what the environments of a factory share.
func (r *Registry) OnClose(f func() error) {
	if f == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closers = append(r.closers, f)
}

// Close frees what environments share, after all of them were closed. Environments that are made
// later share anew.
func (r *Registry) Close() error {
	r.mu.Lock()
	closers := slices.Clone(r.closers)
	r.mu.Unlock()
	var errs []error
	for _, f := range closers {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
