package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vagen/env"
	"vagen/mask"
	"vagen/policy"
	"vagen/reward"
)

// Episode defines one episode to play.
type Episode struct {
	Env    string         // name in the registry
	Config map[string]any // options of the environment
	Seed   int64          // seed of the level
	// Group is the number of the start state, and Index the number of the episode
	// among those that share it. Together they identify the episode within a batch, where
	// its Index is its position if all have neither.
	Group, Index int
	MaxTurns     int `least:"0"` // 0 uses the player's
	// MaxTokens limits a response, and MaxObservation an observation after the first,
	// in addition to the player's limits; 0 is no further limit.
	MaxTokens, MaxObservation int    `least:"0"`
	MaxRegion                 int    `least:"0"` // limits everything after a conversation's opening, like Budget.Response
	Source                    string // groups metrics; "" for none
	// RewardScale multiplies the rewards of the environment before they are recorded; 0 is 1.
	RewardScale float64
}

// End is the reason why an episode ended.
type End string

// The ends of episodes. Only the trajectories of the first three are usable for
// training.
const (
	EndDone     End = "done"      // the environment ended it
	EndMaxTurns End = "max_turns" // the limit on turns was reached
	EndNoRoom   End = "no_room"   // no room for another response

	EndSetup    End = "setup_error"      // the environment could not be created or reset
	EndEnv      End = "env_error"        // the environment failed in a turn
	EndLost     End = "session_lost"     // the service that hosted the environment lost it: env.ErrLost
	EndHang     End = "env_timeout"      // a call of the environment exceeded its time limit
	EndContract End = "contract_error"   // the environment broke its contract
	EndReward   End = "no_reward"        // played, but no reward was sent, or the scoring failed: ErrReward
	EndEmpty    End = "empty_generation" // a policy with tokens returned none, not even an end token
	EndVision   End = "vision_token"     // the policy wrote an image placeholder
	EndPolicy   End = "policy_error"     // the policy failed on this conversation

	EndSlow       End = "episode_timeout" // the environment exceeded the time limit of the episode
	EndBudget     End = "over_budget"     // an opening or an observation does not fit the budget
	EndNoProgress End = "no_progress"     // compaction makes no progress
	EndHarness    End = "harness_error"   // the harness failed

	EndWorker End = "worker_error" // the processes that a Dealer gave the episode to ended or failed, too often

	EndReplay End = "replay_mismatch" // Continue: the recorded episode cannot be repeated up to the turn
)

// Usable reports whether an episode with this End can be used for training.
func (e End) Usable() bool { return e == EndDone || e == EndMaxTurns || e == EndNoRoom }

// Turn is one response and the environment's answer to it.
type Turn struct {
	Row         int             // the conversation it belongs to
	Observation env.Observation // what the agent was shown before the response
	Cut         bool            // Observation was cut to the budget
	Response    string
	Stop        policy.Stop
	Version     int // training step of the weights that wrote the response (policy.Completion.Version)
	Parsed      reward.Response
	Reward      reward.Parts
	Metrics     env.Metrics
}

// Row is one conversation as a training sequence: its tokens, which of them the
// policy wrote, and the log-probs of those (0 elsewhere).
type Row struct {
	mask.Sequence
	LogProbs []float32
	Images   []policy.Image
	Summary  string // text of the summary, when EndsWithSummary
}

// Trajectory is everything recorded of an episode.
type Trajectory struct {
	Episode
	Rows    []Row
	Turns   []Turn
	Metrics env.Metrics // of the trajectory, from the environment
	Success bool
	End     End
	Err     error // cause, when End is not usable
	Attempt int   // number of failed attempts before this one
}

// Return is the sum of all rewards, 0 of a nil trajectory.
func (t *Trajectory) Return() float64 {
	var sum float64
	for _, turn := range cmp.Or(t, new(Trajectory)).Turns {
		sum += turn.Reward.Sum()
	}
	return sum
}

// scaled multiplies rewards by the episode's RewardScale.
func (e *Episode) scaled(parts reward.Parts) reward.Parts {
	if e.RewardScale == 0 {
		return parts
	}
	out := slices.Clone(parts)
	for i := range out {
		out[i].Value *= e.RewardScale
	}
	return out
}

// average replaces the named parts of reward by their mean over the episode.
func (t *Trajectory) average(names []string) {
	if len(names) == 0 {
		return
	}
	turns := make([]reward.Parts, len(t.Turns))
	for k := range t.Turns {
		turns[k] = t.Turns[k].Reward
	}
	reward.EpisodeMean(turns, t.MaxTurns, names...)
	for k := range t.Turns {
		t.Turns[k].Reward = turns[k]
	}
}

// Rewards appends one reward per token of a row, as reward.Place does. A summary's
// reward is 0.
func (t *Trajectory) Rewards(dst []float32, row int, how reward.Placement) ([]float32, error) {
	if t = cmp.Or(t, new(Trajectory)); row < 0 || row >= len(t.Rows) {
		return dst, fmt.Errorf("rollout: rewards of row %d: the trajectory has %d rows", row, len(t.Rows))
	}
	seq := &t.Rows[row].Sequence
	var turns []reward.Parts
	for _, turn := range t.Turns {
		if turn.Row == row {
			turns = append(turns, turn.Reward)
		}
	}
	if seq.EndsWithSummary() {
		turns = append(turns, nil)
	}
	dst, err := reward.Place(dst, seq, how, turns, 0)
	if err != nil {
		return dst, fmt.Errorf("rollout: rewards of row %d: %w", row, err)
	}
	return dst, nil
}

// Counts sums up a batch of trajectories by how they ended.
type Counts struct {
	Episodes, Usable, Success int
	Turns                     int
	Rows                      int         // with responses
	Summaries                 int         // summaries, which close a conversation
	Cut                       int         // observations that were cut to the budget
	Retried                   int         // failed attempts that were played again
	Tokens                    int         // tokens written by the policy
	Forced                    int         // those of Tokens that were forced, not sampled
	Context                   int         // tokens read by the policy
	ByEnd                     map[End]int // episodes by End
}

// Count counts trajectories. Unusable ones count in Episodes, Retried and ByEnd only, nil ones not at all.
func Count(ts []*Trajectory) Counts {
	c := Counts{ByEnd: map[End]int{}}
	for _, t := range present(ts) {
		c.Episodes++
		c.Retried += t.Attempt
		c.ByEnd[t.End]++
		if !t.End.Usable() {
			continue
		}
		c.Usable++
		c.Turns += len(t.Turns)
		if t.Success {
			c.Success++
		}
		for _, turn := range t.Turns {
			if turn.Cut {
				c.Cut++
			}
		}
		for i := range t.Rows {
			seq := &t.Rows[i].Sequence
			if seq.Turns() > 0 {
				c.Rows++
			}
			if seq.EndsWithSummary() {
				c.Summaries++
			}
			for s := range seq.Spans {
				if s.Name == mask.Forced {
					c.Forced += s.End - s.Start
				}
			}
			for p := range seq.Pieces {
				if p.Kind == mask.Response {
					c.Tokens += p.End - p.Start
				} else {
					c.Context += p.End - p.Start
				}
			}
		}
	}
	return c
}

// present returns the trajectories that are not nil.
func present(ts []*Trajectory) []*Trajectory {
	return slices.DeleteFunc(slices.Clone(ts), func(t *Trajectory) bool { return t == nil })
}

// failures returns the ends of unusable episodes, in order.
func (c *Counts) failures() []End {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.ByEnd)), End.Usable)
}

// Failures describes the unusable ones of some trajectories: their numbers by End, and the first
// cause, which it wraps. It is nil if all are usable.
func Failures(ts []*Trajectory) error {
	c := Count(ts)
	var parts []string
	for _, end := range c.failures() {
		parts = append(parts, fmt.Sprintf("%s %d", end, c.ByEnd[end]))
	}
	switch text, first := strings.Join(parts, ", "), firstError(ts); {
	case text == "":
		return nil
	case first == nil:
		return errors.New(text)
	default:
		return fmt.Errorf("%s; the first: %w", text, first)
	}
}

func firstError(ts []*Trajectory) error {
	for _, t := range present(ts) {
		if t.Err != nil {
			return t.Err
		}
	}
	return nil
}
