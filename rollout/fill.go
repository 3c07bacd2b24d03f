package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// FillOptions defines how to fill a batch with usable groups.
type FillOptions struct {
	Groups int // number of usable groups needed; must be positive
	// Extra is the number of groups played in addition in each round, so that a few
	// failures need no further round. Usable groups beyond Groups are discarded.
	Extra int
	// Most limits how many groups are played in total; 0 is 4·(Groups + Extra).
	Most int
	// Episodes returns the episodes of the group with this number, counted from 0.
	// Fill sets their Group to it, and their Index to their position in it if none has one. An
	// empty result means that there are no more groups.
	Episodes func(group int) []Episode
	// Keep reports whether a group can be used, given its trajectories in order.
	// nil requires every episode of the group to be usable.
	Keep func(group []*Trajectory) bool
}

func (f *FillOptions) check() error {
	if f.Groups < 1 || f.Extra < 0 || f.Most < 0 || f.Episodes == nil {
		return fmt.Errorf("rollout: FillOptions: Groups %d, Extra %d, Most %d: Groups must be positive, the others not negative, and Episodes set", f.Groups, f.Extra, f.Most)
	}
	return nil
}

// Fill plays groups of episodes until enough of them are usable, and returns the
// trajectories of these in the order of the groups. It returns the usable groups with
// the lowest numbers, not those that finish first, so the result depends on the seeds
// alone. all counts everything that was played. When too few groups are usable, Fill
// returns these without an error, unless no episode at all could be started (ErrNotStarted).
func (p *Player) Fill(
	ctx context.Context, f FillOptions, seed uint64,
) (kept []*Trajectory, all Counts, took Timing, err error) {
	all.ByEnd = map[End]int{}
	if err := f.check(); err != nil {
		return nil, all, took, err
	}
	most := f.Most
	if most == 0 {
		most = 4 * (f.Groups + f.Extra)
	}
	found := 0
	var failed error // ErrNotStarted, until an episode has been started
	for played := 0; found < f.Groups && played < most; {
		batch, groups := f.next(played, min(f.Groups-found+f.Extra, most-played))
		if len(batch) == 0 {
			break
		}
		played += groups
		ts, t, err := p.Play(ctx, batch, seed)
		took.Generate, took.Env = took.Generate+t.Generate, took.Env+t.Env
		switch {
		case errors.Is(err, ErrNotStarted):
			if all.Episodes == 0 {
				failed = err
			}
		case err != nil:
			return nil, all, took, err
		default:
			failed = nil
		}
		all.add(Count(ts))
		for len(ts) > 0 && found < f.Groups {
			n := 1
			for n < len(ts) && ts[n].Group == ts[0].Group {
				n++
			}
			if f.keeps(ts[:n]) {
				kept = append(kept, ts[:n]...)
				found++
			}
			ts = ts[n:]
		}
	}
	return kept, all, took, failed
}

// next lists the episodes of up to n groups, starting with group from.
func (f *FillOptions) next(from, n int) (batch []Episode, groups int) {
	for groups < n {
		episodes := f.Episodes(from + groups)
		if len(episodes) == 0 {
			break
		}
		named := slices.ContainsFunc(episodes, func(e Episode) bool { return e.Index != 0 })
		for i, e := range episodes {
			e.Group = from + groups
			if !named {
				e.Index = i
			}
			batch = append(batch, e)
		}
		groups++
	}
	return batch, groups
}

func (f *FillOptions) keeps(group []*Trajectory) bool {
	if f.Keep != nil {
		return f.Keep(group)
	}
	return !slices.ContainsFunc(group, func(t *Trajectory) bool { return !t.End.Usable() })
}

// add adds the counts of another batch.
func (c *Counts) add(o Counts) {
	c.Episodes, c.Usable, c.Success = c.Episodes+o.Episodes, c.Usable+o.Usable, c.Success+o.Success
	c.Turns, c.Rows, c.Summaries = c.Turns+o.Turns, c.Rows+o.Rows, c.Summaries+o.Summaries
	c.Cut, c.Retried = c.Cut+o.Cut, c.Retried+o.Retried
	c.Tokens, c.Forced, c.Context = c.Tokens+o.Tokens, c.Forced+o.Forced, c.Context+o.Context
	for end, n := range o.ByEnd {
		c.ByEnd[end] += n
	}
}
