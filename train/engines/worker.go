package engines

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"vagen/internal/unmade"
	"vagen/policy"
	"vagen/policy/engine"
	"vagen/train/config"
)

// WorkerPolicy returns what Follower.Policy needs to sample with the current weights, after it
// has brought them to the servers.
func (l *learner) WorkerPolicy(ctx context.Context) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.publish(ctx); err != nil {
		return nil, err
	}
	return l.version()
}

// WorkerPolicy is that of the learner for the weights that the servers have.
func (s *snapshot) WorkerPolicy(context.Context) ([]byte, error) {
	s.learner.mu.Lock()
	defer s.learner.mu.Unlock()
	return s.learner.version()
}

// version encodes the version that the servers have. The mutex must be held.
func (l *learner) version() ([]byte, error) {
	v, _ := l.fleet.Current()
	v.Base = l.fleet.Base()
	raw, err := json.Marshal(&v)
	if err != nil {
		return nil, fmt.Errorf("engines: %w", err)
	}
	return raw, nil
}

// CheckRow returns an error unless the model can read the tokens and images of a row, which
// another process may have made up.
func (l *learner) CheckRow(tokens []int32, images []policy.Image) error {
	return l.fleet.Codec().Check(tokens, images)
}

// Follower samples in another process than a learner of Wrap, with the weights that it has
// brought to the servers. Its methods may be called from several goroutines.
type Follower struct {
	mu    sync.Mutex
	fleet *engine.Fleet
	last  string
}

// Follow opens the servers of a configuration for a Follower.
func Follow(ctx context.Context, c *config.Config, log *slog.Logger) (*Follower, error) {
	c = cmp.Or(c, new(config.Config))
	o, err := options(c)
	if err != nil {
		return nil, err
	}
	o.Follow = true
	fleet, err := openFleet(ctx, c, config.EngineKey, o, log)
	if err != nil {
		return nil, err
	}
	return &Follower{fleet: fleet}, nil
}

// Policy returns a policy with the weights that WorkerPolicy describes. Policies that it
// returned before cannot be used any more if they have others.
func (f *Follower) Policy(ctx context.Context, version []byte) (policy.Policy, error) {
	if f.fleet == nil {
		return nil, unmade.Error("engines.Follower", "Follow")
	}
	var v engine.Version
	if err := json.Unmarshal(version, &v); err != nil {
		return nil, fmt.Errorf("engines: the version of the weights cannot be read: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != string(version) {
		if err := f.fleet.Publish(ctx, v); err != nil {
			return nil, err
		}
		f.last = string(version)
	}
	return engine.NewPolicy(f.fleet), nil
}

// Close closes the connections.
func (f *Follower) Close() error {
	if f.fleet == nil {
		return nil
	}
	return f.fleet.Close()
}
