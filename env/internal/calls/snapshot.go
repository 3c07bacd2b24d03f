package calls

import "fmt"

// Snapshot returns an error after Close, and without an episode.
func (g *Guard) Snapshot(episode bool) error {
	switch {
	case g.closed:
		return fmt.Errorf("%s: snapshot: %w", g.Env, ErrClosed)
	case !episode:
		return fmt.Errorf("%s: snapshot: %w", g.Env, ErrNotReset)
	}
	return nil
}
