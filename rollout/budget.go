package rollout

import (
	"errors"
	"fmt"

	"vagen/internal/field"
)

// Budget limits conversations. Lengths are in tokens; a limit of 0 is off. With all
// limits off, no token is counted before the policy reads it.
type Budget struct {
	// Prompt limits the opening of a conversation. For a longer opening see Cut.
	Prompt int `least:"0"`
	// Response limits the response region: everything after the opening. The policy
	// is asked for a response only if at least a quarter of the region, or the
	// longest response if that is less, is left for it.
	Response int `least:"0"`
	// Observation limits an observation after a turn. A longer one is cut: text
	// from its end, then whole images. If nothing would be left, the episode is
	// unusable.
	Observation int `least:"0"`
	// Cut is the side from which the observation in an opening longer than Prompt is
	// cut, text first, then whole images: CutRight cuts its end, CutLeft its
	// beginning. With CutNothing, the zero value, the episode is unusable.
	Cut Cut
	// Images limits the number of images of a conversation. An episode whose next
	// image exceeds it ends like one without room for a response.
	Images int `least:"0"`

	perTurn int // longest response of a turn, set by the player
}

// Cut is a side of an observation.
type Cut string

// The sides.
const (
	CutNothing Cut = ""
	CutLeft    Cut = "left"
	CutRight   Cut = "right"
)

// on reports whether a limit in tokens is set.
func (b Budget) on() bool { return b.Prompt > 0 || b.Response > 0 || b.Observation > 0 }

// floor is the smallest room for which a response is requested.
func (b Budget) floor() int { return min(b.perTurn, max(1, b.Response/4)) }

// room is the longest allowed response, given the tokens of the region that are
// spent, pending to be read, and held in reserve; 0 if that is below the floor.
func (b Budget) room(spent, pending, reserve int) int {
	return room(b.Response, b.floor(), spent, pending, reserve)
}

func room(region, floor, spent, pending, reserve int) int {
	if left := region - spent - pending - reserve; left >= floor {
		return left
	}
	return 0
}

func (b Budget) check() error {
	var c field.Checks
	c.Struct(&b, "")
	if b.Cut != CutNothing && b.Cut != CutLeft && b.Cut != CutRight {
		c.Bad("Cut", "%q, must be left, right or empty", b.Cut)
	}
	if err := c.Err(); err != nil {
		return fmt.Errorf("rollout: Budget: %w", err)
	}
	return nil
}

// The errors and warnings of Plan.Check.
var (
	ErrTurnRegion    = errors.New("a response may be longer than the response region")
	ErrTurnContext   = errors.New("a response may be longer than the model's context")
	ErrNoSummary     = errors.New("compaction needs room for a summary")
	ErrSummaryTurn   = errors.New("a summary may be longer than a response")
	ErrCompactRegion = errors.New("the response region cannot hold a turn, an observation and a summary")

	ErrEpisodeRegion = errors.New("an episode of the longest responses does not fit the response region")
	ErrEpisodeWindow = errors.New("an episode of the longest responses does not fit the window")
	ErrSummaryTotal  = errors.New("a summary may be longer than half of a conversation")
)

// Plan holds the token limits of a run, to be checked before it starts. 0 means
// "not known" in Context and "no limit" in the Budget.
type Plan struct {
	Budget
	Harness  Harness
	PerTurn  int // longest response
	MaxTurns int
	Context  int // tokens that the model reads at most
	Request  int // length of the message that asks for a summary
}

// Window is the length of the longest row; 0 when it has no limit.
func (p *Plan) Window() int {
	window := p.Prompt + p.Response
	if p.Response == 0 || p.Context > 0 && p.Context < window {
		return p.Context
	}
	return window
}

// Floor is the smallest room for which a response is requested.
func (p *Plan) Floor() int { return Budget{Response: p.Response, perTurn: p.PerTurn}.floor() }

// Check returns the first error of the plan, and warnings about settings that may
// work but are doubtful.
func (p *Plan) Check() (warnings []error, err error) {
	c, compact := p.Harness.(Compact)
	least := c.Summary + p.Request + p.PerTurn + p.Observation + p.Floor()
	switch {
	case p.Response > 0 && p.PerTurn > p.Response:
		return nil, fmt.Errorf("rollout: budget: %w: %d of %d tokens", ErrTurnRegion, p.PerTurn, p.Response)
	case p.Context > 0 && p.PerTurn > p.Context:
		return nil, fmt.Errorf("rollout: budget: %w: %d of %d tokens", ErrTurnContext, p.PerTurn, p.Context)
	case compact && c.Summary < 1:
		return nil, fmt.Errorf("rollout: budget: %w: it has %d tokens", ErrNoSummary, c.Summary)
	case compact && c.Summary > p.PerTurn:
		return nil, fmt.Errorf("rollout: budget: %w: %d and %d tokens", ErrSummaryTurn, c.Summary, p.PerTurn)
	case compact && p.Response > 0 && least > p.Response:
		return nil, fmt.Errorf("rollout: budget: %w: %d for the summary, %d for the request for it, %d for a response, %d for an observation and %d for the next response, of %d",
			ErrCompactRegion, c.Summary, p.Request, p.PerTurn, p.Observation, p.Floor(), p.Response)
	}
	if _, one := p.Harness.(Concat); one {
		all := p.MaxTurns * p.PerTurn
		if p.Response > 0 && all > p.Response {
			warnings = append(warnings, fmt.Errorf("rollout: budget: %w: %d turns of %d tokens, of %d", ErrEpisodeRegion,
				p.MaxTurns, p.PerTurn, p.Response))
		}
		if w := p.Window(); w > 0 && all > w {
			warnings = append(warnings, fmt.Errorf("rollout: budget: %w: %d turns of %d tokens, of %d", ErrEpisodeWindow,
				p.MaxTurns, p.PerTurn, w))
		}
	}
	if compact && c.Total > 0 && 2*c.Summary > c.Total {
		warnings = append(warnings, fmt.Errorf("rollout: budget: %w: %d of %d tokens", ErrSummaryTotal, c.Summary, c.Total))
	}
	return warnings, nil
}
